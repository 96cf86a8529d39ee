"""What a call does not need is not imported: modules are counted, nothing is timed."""
import json
import subprocess
import sys

from conftest import ROOT

HEAVY = {"pandas", "matplotlib", "sklearn", "torchvision", "joblib", "PIL"}
EVERYDAY = """
import sys, torch
before = set(sys.modules)
from fairw2_nb import WassersteinPenalty, FairDataset, disparate_impact, fit
scores, s = torch.rand(8, requires_grad=True), torch.arange(8) % 2
WassersteinPenalty()(scores, s).backward()
disparate_impact(scores > .5, s)
"""
HELP = """
before = set()
from fairw2_nb.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code, end
"""
LIST = """
import json, sys
print(json.dumps([name for name in sys.modules if name not in before]))
"""


def imported(code):
    "The packages and modules that a fresh interpreter has imported after running `code`."
    done = subprocess.run([sys.executable, "-c", code + LIST], cwd=ROOT, check=True,
                          capture_output=True, text=True)
    names = json.loads(done.stdout.splitlines()[-1])
    return {*names, *(name.split(".")[0] for name in names)}


def test_package_alone():
    assert not imported("before = set()\nimport fairw2_nb") & {"torch", "numpy", "scipy", *HEAVY}


def test_everyday_names_at_work():
    "What torch brings along by itself does not count."
    found = imported(EVERYDAY) & {"scipy.stats", *HEAVY}
    assert not found, f"the everyday names import {sorted(found)}"


def test_help_without_torch():
    "`fairw2 --help` names the commands before anything heavy is there."
    found = imported(HELP) & {"torch", "numpy", "scipy", *HEAVY}
    assert not found, f"`fairw2 --help` imports {sorted(found)}"
