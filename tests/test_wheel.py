"""A wheel holds all that pages need: they run in an empty folder, far from the repository."""
import subprocess

import pytest
import run_notebooks
from conftest import LIB, ROOT, modules

PAGES = ["penalty/04_loss", "experiments/07_lambda_transfer"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    "The folder into which a wheel of this tree was unpacked."
    return run_notebooks.unpacked_wheel(tmp_path_factory.mktemp("wheel"))


def test_holds_every_module(wheel):
    for path in [*modules(), LIB / "__init__.py", LIB / "_modidx.py"]:
        assert (wheel / path.relative_to(ROOT)).is_file(), f"{path.relative_to(ROOT)} is missing."


@pytest.mark.parametrize("pattern", ["data/files/*", "experiments/rows/*.jsonl"])
def test_holds_files_and_rows(wheel, pattern):
    kept = sorted(LIB.glob(pattern))
    assert kept, f"there is no fairw2_nb/{pattern}"
    for path in kept:
        packed = wheel / path.relative_to(ROOT)
        assert packed.is_file(), f"{path.relative_to(ROOT)} is not in the wheel: see setup.py."
        assert packed.read_bytes() == path.read_bytes()


def test_holds_nothing_else(wheel):
    "What git does not know is not shipped, nor are tests, tools and notebooks."
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    known = subprocess.run(["git", "ls-files", "fairw2_nb"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    shipped = [path.relative_to(wheel) for path in wheel.rglob("*") if path.is_file()]
    shipped = [path.as_posix() for path in shipped if ".dist-info" not in path.parts[0]]
    assert sorted(shipped) == sorted(known)


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_far_from_the_repository(wheel, page):
    absent = run_notebooks.DEVELOPMENT + run_notebooks.PEERS
    run_notebooks.run_from_wheel(ROOT / "nbs" / f"{page}.ipynb", wheel, absent)
