"""Every notebook runs top to bottom, is clean, and is what the modules were exported from."""
import json
import re
import shutil
import subprocess
import sys
from copy import deepcopy

import nbdev.test
from conftest import ROOT, each_notebook
from execnb.nbio import read_nb
from nbdev.clean import clean_nb

PATH = re.compile(r"(?<![\w.])/(root|home|Users|tmp|work)/")


@each_notebook
def test_runs(path, monkeypatch):
    "The logic of nbdev_test, one test per notebook."
    monkeypatch.chdir(path.parent)
    ok, _ = nbdev.test.test_nb(path, skip_flags=["slow"], basepath=ROOT)
    assert ok, f"{path.name} failed, see the traceback above: mend it, then `make notebooks docs`."


@each_notebook
def test_clean(path):
    "nbdev_clean would change nothing."
    nb = read_nb(path)
    cleaned = deepcopy(nb)
    clean_nb(cleaned)
    assert nb == cleaned, f"{path.name} holds execution counts or metadata: run `nbdev_clean`."


@each_notebook
def test_stored_outputs(path):
    "Outputs are stored, small, and free of errors, warnings and paths of a machine."
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    outputs = [o for c in cells for o in c["outputs"]]
    if cells:
        assert outputs, f"{path.name} has no stored outputs: run `make notebooks`."
    for o in outputs:
        text = json.dumps(o)
        assert o["output_type"] != "error", f"{path.name} stores an error."
        warned = o.get("name") == "stderr" and "Warning" in text
        assert not warned, f"{path.name} stores a warning."
        assert not PATH.search(text), f"{path.name} stores a path of the machine it ran on."
        assert len(text) < 400_000, f"{path.name} stores an output of {len(text) // 1000} kB."


@each_notebook
def test_figures_are_stored(path):
    "A cell that shows a figure has its picture."
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    for source, outputs in (("".join(c["source"]), c["outputs"]) for c in cells):
        if "plt.show()" in source and not re.search(r"^#\| *(eval: *false|slow)", source, re.M):
            drawn = any("image/png" in o.get("data", {}) for o in outputs)
            assert drawn, f"{path.name} lacks a picture: run `make notebooks`."


def test_export_in_sync(tmp_path):
    "nbdev_export would change no module."
    unwanted = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in ("nbs", "fairw2_nb"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unwanted)
    shutil.copy(ROOT / "settings.ini", tmp_path)
    export = [sys.executable, "-c", "import nbdev; nbdev.nbdev_export()"]
    subprocess.run(export, cwd=tmp_path, check=True)
    for made in sorted((tmp_path / "fairw2_nb").rglob("*.py")):
        kept = ROOT / made.relative_to(tmp_path)
        same = kept.exists() and kept.read_text() == made.read_text()
        assert same, f"{kept.name} differs from its notebook: run `nbdev_export`."
