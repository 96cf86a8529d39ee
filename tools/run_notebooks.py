"""Run notebooks top to bottom and store their outputs, then clean them: `python tools/run_notebooks.py nbs/01_metrics.ipynb ...`

Cells marked `#| eval: false` or with a flag of `tst_flags` keep the outputs they have. Without arguments, all notebooks run.
"""
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbdev.clean import process_write, clean_nb
from nbdev.config import get_config
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "|".join(get_config().tst_flags.split() or ["$^"])
SKIP = re.compile(rf"^#\|\s*(eval:\s*false|({FLAGS}))\b", re.M)


class Runner(NotebookClient):
    "A notebook client that leaves the cells that nbdev_test would not run as they are."

    async def async_execute_cell(self, cell, cell_index, *args, **kwargs):
        if cell.cell_type == "code" and SKIP.search(cell.source):
            return cell
        return await super().async_execute_cell(cell, cell_index, *args, **kwargs)


def is_progress(output):
    "Whether an output is a progress bar, whose times differ from run to run, or the empty line behind one."
    text = output.get("text", "")
    return output.get("name") == "stderr" and (bool(re.search(r"\d+%\|.*\d+/\d+ \[", text)) or not text.strip())


def run(path):
    "Execute the notebook at `path` in its own folder and write it back with current outputs."
    nb = nbformat.read(path, as_version=4)
    Runner(nb, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not is_progress(o)]
    nb.metadata = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    nbformat.write(nb, path)
    process_write(warn_msg=f"Could not clean {path}", proc_nb=clean_nb, f_in=path)


if __name__ == "__main__":
    os.environ.pop("MPLBACKEND", None)  # with "agg" the figures would not be stored
    paths = [Path(p).resolve() for p in sys.argv[1:]] or sorted(ROOT.glob("nbs/**/*.ipynb"))
    for path in (bar := tqdm([p for p in paths if ".ipynb_checkpoints" not in p.parts])):
        bar.set_description(path.stem)
        run(path)
