"""Shared by all tests: where things are, and a fixed hypothesis profile."""
import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "agg")

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
torch.set_num_threads(1)
settings.register_profile("project", deadline=None, derandomize=True, print_blob=True) # a slow machine is not a failure
settings.load_profile("project")


@pytest.fixture(scope="session")
def root() -> Path:
    "The root of the repository."
    return ROOT


def notebooks() -> list[Path]:
    "All notebooks of the project."
    return [p for p in sorted((ROOT / "nbs").rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]


def notebook_id(path: Path) -> str:
    "Name of a notebook in test listings."
    return str(path.relative_to(ROOT / "nbs").with_suffix(""))
