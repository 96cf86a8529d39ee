"""Run notebooks top to bottom and store their outputs: `python tools/run_notebooks.py [path ...]`

Cells marked `#| eval: false` or with a flag of `tst_flags` keep the outputs they have. Without
arguments, all notebooks run. With `--from-wheel` each runs in an empty folder against a wheel built
from this tree, as for somebody who has installed the package and no more; then nothing is stored.
With `--peers` too, the packages of other methods are there.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbdev.clean import clean_nb, process_write
from nbdev.config import get_config
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "|".join(get_config(path=ROOT).tst_flags.split() or ["$^"])
SKIP = re.compile(rf"^#\|\s*(eval:\s*false|({FLAGS}))\b", re.M)
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
PEERS = ["ot", "POT", "fairlearn", "fairret", "fairgrad", "humancompatible", "oxonfair", "geomloss"]
PEERS += ["equipy", "humancompatible-train"]  # modules, and packages called otherwise
DEVELOPMENT = ["nbdev", "execnb", "ghapi", "pytest", "hypothesis", "playwright", "zensical"]
NOT_INSTALLED = """from importlib import machinery, metadata
find_anything, know_anything = machinery.PathFinder.find_spec, metadata.distribution
def find_spec(name, *args):
    return None if name.split(".")[0] in {absent} else find_anything(name, *args)
def distribution(name):
    return know_anything("absent" if name in {absent} else name)
machinery.PathFinder.find_spec, metadata.distribution = staticmethod(find_spec), distribution
"""
ONLY_THE_WHEEL = """import sys
ours = [m for name, m in sys.modules.items() if name.split(".")[0] == "fairw2_nb"]
assert all(m.__file__.startswith({wheel!r}) for m in ours), "a module comes from elsewhere"
"""


class Runner(NotebookClient):
    "A notebook client that leaves the cells that nbdev_test would not run as they are."

    async def async_execute_cell(self, cell, cell_index, *args, **kwargs):
        if cell.cell_type == "code" and SKIP.search(cell.source):
            return cell
        return await super().async_execute_cell(cell, cell_index, *args, **kwargs)


def execute(nb, folder):
    "Run the cells of a notebook inside `folder`."
    resources = {"metadata": {"path": str(folder)}}
    Runner(nb, timeout=600, kernel_name="python3", resources=resources).execute()


def is_progress(output):
    "Whether an output is a progress bar, whose times differ, or the empty line behind one."
    text = output.get("text", "")
    bar = re.search(r"\d+%\|.*\d+/\d+ \[", text)
    return output.get("name") == "stderr" and (bool(bar) or not text.strip())


def run(path):
    "Execute the notebook at `path` in its own folder and write it back with current outputs."
    nb = nbformat.read(path, as_version=4)
    execute(nb, path.parent)
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not is_progress(o)]
    python = {"display_name": "python3", "language": "python", "name": "python3"}
    nb.metadata = {"kernelspec": python}
    nbformat.write(nb, path)
    process_write(warn_msg=f"Could not clean {path}", proc_nb=clean_nb, f_in=path)


def unpacked_wheel(folder):
    "Build a wheel from a copy of the tree and unpack it; returns where the package lies."
    tree, out, wheel = (Path(folder) / name for name in ("tree", "out", "wheel"))
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "fairw2_nb", tree / "fairw2_nb", ignore=unwanted)
    for name in ("setup.py", "settings.ini", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    out.mkdir()
    build = [sys.executable, "-c", BUILD, str(out)]
    subprocess.run(build, cwd=tree, check=True, capture_output=True)
    zipfile.ZipFile(next(out.glob("*.whl"))).extractall(wheel)
    return wheel


def run_from_wheel(path, wheel, absent):
    "Execute a copy of a notebook in an empty folder, the package from `wheel`, some others absent."
    nb, cell = nbformat.read(path, as_version=4), nbformat.v4.new_code_cell
    nb.cells.insert(0, cell(NOT_INSTALLED.format(absent=absent)))
    nb.cells.append(cell(ONLY_THE_WHEEL.format(wheel=str(wheel))))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(wheel)
    try:
        with tempfile.TemporaryDirectory() as folder:
            execute(nb, folder)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def run_all_from_wheel(paths, absent):
    "Run each notebook from a wheel, go on after an error, and say at the end which failed."
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        wheel = unpacked_wheel(folder)
        for path in tqdm(paths):
            try:
                run_from_wheel(path, wheel, absent)
            except CellExecutionError as error:
                failed.append(f"{path.relative_to(ROOT)}: {error.ename}: {error.evalue}")
    print("\n".join([f"{len(paths) - len(failed)} of {len(paths)} notebooks ran.", *failed]))
    return len(failed)


if __name__ == "__main__":
    os.environ.pop("MPLBACKEND", None)  # with "agg" the figures would not be stored
    if {"-h", "--help"} & {*sys.argv}:
        sys.exit(__doc__)
    named = [Path(p).resolve() for p in sys.argv[1:] if not p.startswith("--")]
    paths = named or sorted(ROOT.glob("nbs/**/*.ipynb"))
    paths = [p for p in paths if ".ipynb_checkpoints" not in p.parts]
    if "--from-wheel" in sys.argv:
        absent = DEVELOPMENT if "--peers" in sys.argv else DEVELOPMENT + PEERS
        sys.exit(run_all_from_wheel(paths, absent) > 0)
    for path in (bar := tqdm(paths)):
        bar.set_description(path.stem)
        run(path)
