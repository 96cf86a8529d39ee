"""Shared by all tests: where things are, how to read them, and a fixed hypothesis profile."""
import os
import re
import sys
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "agg")

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
LIB = ROOT / "fairw2_nb"
sys.path.insert(0, str(ROOT / "tools"))
import site_pages

torch.set_num_threads(1)
settings.register_profile("project", deadline=None, derandomize=True, print_blob=True,
                          max_examples=50)  # the same ones each time
settings.load_profile("project")  # without deadline: a slow machine is not a failure


# the longest first, so that two workers end together
LONG = ["test_site", "test_processes", "test_mutants", "test_wheel", "test_experiments_cost",
        "test_models_linear", "test_cli", "test_experiments_results"]


def pytest_collection_modifyitems(items):
    "Long files first, then the notebooks, then all else."
    places = {name: place for place, name in enumerate([*LONG, "test_notebooks"])}
    items.sort(key=lambda item: places.get(item.module.__name__, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    "A file goes to one worker, so that it sets up once; notebooks go to whoever is free."
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return nodeid if "::test_runs[" in nodeid else nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # in the order above
    return ByFile(config, log)


@pytest.fixture(scope="session")
def root() -> Path:
    "The root of the repository."
    return ROOT


def notebooks() -> list[Path]:
    "All notebooks of the project."
    return sorted(site_pages.notebooks())


def notebook_id(path: Path) -> str:
    "Name of a notebook in test listings."
    return path.relative_to(ROOT / "nbs").with_suffix("").as_posix()


def modules() -> list[Path]:
    "All modules that notebooks are exported to."
    return [p for p in sorted(LIB.rglob("*.py")) if not p.name.startswith("_")]


def module_id(path: Path) -> str:
    "Name of a module in test listings."
    return path.relative_to(LIB).with_suffix("").as_posix()


@lru_cache(None)
def code_cells(path: Path) -> list[tuple[int, str]]:
    "Number and source of each code cell of a notebook, without magics, line by line."
    cells = enumerate(site_pages.read_cells(path))
    code = [(i, c["source"]) for i, c in cells if c["cell_type"] == "code"]
    return [(i, re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.M)) for i, source in code]


def is_exported(source: str) -> bool:
    "Whether a cell goes into the module."
    return bool(re.search(r"^#\| *exporti?\b", source, re.M))


each_notebook = pytest.mark.parametrize("path", notebooks(), ids=notebook_id)
each_module = pytest.mark.parametrize("path", modules(), ids=module_id)
