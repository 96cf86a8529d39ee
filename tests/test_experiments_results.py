"""Rows survive kills, cut lines, full disks and second writers, and nothing is run twice."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import ROOT
from fairw2_nb.experiments.adult import ADULT
from fairw2_nb.experiments.experiment import run_rows
from fairw2_nb.experiments.results import (
    append_row, only_writer, provenance, read_rows, refuse_old_rows, set_aside)
from hypothesis import given
from hypothesis import strategies as st

values = st.one_of(st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=9),
                   st.booleans(), st.none())
plain = st.dictionaries(st.text(max_size=5), values, max_size=4)


@given(st.lists(plain, max_size=5))
def test_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a" / "rows.jsonl"
    for row in rows:
        append_row(path, row)
    assert read_rows(path) == rows


def test_a_cut_line_is_kept_aside_and_the_run_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_row(path, {"seed": 0})
    path.write_text(path.read_text() + '{"seed": 1, "DI": 0.')
    append_row(path, {"seed": 2})
    with pytest.warns(UserWarning, match="1 line"):
        assert read_rows(path) == [{"seed": 0}, {"seed": 2}]
    assert set_aside(path) == 1 and set_aside(path) == 0
    assert (tmp_path / "rows.jsonl.damaged").read_text() == '{"seed": 1, "DI": 0.\n'
    assert read_rows(path) == [{"seed": 0}, {"seed": 2}]


def test_a_full_disk_leaves_no_half_line(tmp_path):
    "A limit on the file size stands for a full disk."
    path = tmp_path / "rows.jsonl"
    append_row(path, {"seed": 0})
    code = textwrap.dedent(f"""
        import resource
        from fairw2_nb.experiments.results import append_row
        resource.setrlimit(resource.RLIMIT_FSIZE, (30, 30))
        try: append_row({str(path)!r}, {{"seed": 1, "text": "x" * 100}})
        except OSError as e: print("refused:", e)
    """)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert out.startswith("refused:")
    assert path.read_text() == json.dumps({"seed": 0}) + "\n"


ROOT_USER = not hasattr(os, "geteuid") or os.geteuid() == 0


@pytest.mark.skipif(ROOT_USER, reason="root may write anywhere")
def test_no_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        append_row(tmp_path / "rows.jsonl", {"seed": 0})


SWEEP = textwrap.dedent("""
    import sys, time
    from fairw2_nb.experiments.experiment import Experiment, run_rows
    def run(seed, pause=.15):
        time.sleep(pause)
        return {"square": seed ** 2}
    exp = Experiment("toy", "", run, grid=None, table=None, legend="")
    try: run_rows(exp, [{"seed": k} for k in range(12)], sys.argv[1], workers=int(sys.argv[2]))
    except ValueError as e: sys.exit(f"refused: {e}")
""")


@pytest.fixture
def sweep(tmp_path):
    "Command of a sweep of twelve runs, and its row file."
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    return [sys.executable, str(script), str(tmp_path)], tmp_path / "toy.jsonl"


def start(command, path, more):
    "Start a sweep and wait until it has written so many rows more."
    before = len(read_rows(path))
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(read_rows(path)) < before + more and time.monotonic() < deadline:
        time.sleep(.02)
    return process


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_sweep_resumes(sweep, workers):
    command, path = sweep
    for _ in range(2): # kill it, and again
        kill(start([*command, workers], path, 2))
    kept = read_rows(path)
    assert len(kept) >= 4
    subprocess.run([*command, workers], check=True, stderr=subprocess.DEVNULL)
    rows = read_rows(path)
    assert rows[: len(kept)] == kept # nothing lost, nothing repeated
    assert sorted(r["seed"] for r in rows) == list(range(12))
    assert all(r["square"] == r["seed"] ** 2 and r["pause"] == .15 for r in rows)
    about = {"version", "campaign", "data", "duration", "commit", "python", "torch", "fairw2_nb"}
    assert all(about <= r.keys() for r in rows)


def test_the_second_writer_says_so_and_the_lock_dies_with_its_owner(sweep):
    command, path = sweep
    first = start([*command, "1"], path, 1)
    second = subprocess.run([*command, "1"], capture_output=True, text=True)
    assert second.returncode and "refused: Another run is writing to" in second.stderr
    assert str(path) in second.stderr and "Traceback" not in second.stderr
    kill(first)
    with only_writer(path): # free at once
        pass


def test_the_lock_is_given_back_after_an_error(tmp_path):
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ZeroDivisionError):
        with only_writer(path):
            1 / 0
    with only_writer(path):
        pass


@pytest.mark.parametrize("old", ["adult/local-rows.jsonl", "portability/rows.jsonl"])
def test_rows_of_the_old_layout_are_refused_with_a_way_to_move_them(tmp_path, old):
    append_row(tmp_path / old, {"method": "LR", "seed": 0})
    with pytest.raises(ValueError, match="earlier layout.*tools/move_rows.py"):
        refuse_old_rows(tmp_path)


def test_old_rows_are_moved_and_recognised(tmp_path):
    "Values stay, defaults are filled in, the old file is kept, and nothing is run again."
    old = tmp_path / "adult" / "local-rows.jsonl"
    row = {"method": "LR", "seed": 0, "preset": "quick", "Acc": .8, "data": "eb06da7b2365",
           "duration": 2., "python": "3.11", "machine": "x", "fairw2_nb": "0.1.0",
           "torch": "2", "numpy": "2", "scipy": "1"}
    append_row(old, row)
    append_row(tmp_path / "frontier" / "rows.jsonl", row | {
        "batch": 16, "strength": 1., "reference": None, "data": "adult"})
    script = ROOT / "tools" / "move_rows.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    refuse_old_rows(tmp_path, moved := read_rows(tmp_path / "adult.jsonl"))
    assert row.items() <= moved[0].items() and moved[0]["version"] == 1
    assert read_rows(old.with_name("local-rows.jsonl.moved")) == [row]
    frame = run_rows(ADULT, [dict(method="LR", seed=0)], tmp_path)
    assert list(frame.Acc) == [.8] and len(read_rows(tmp_path / "adult.jsonl")) == 1
    other = read_rows(tmp_path / "frontier.jsonl")[0]
    assert (other["table"], other["epochs"], other["data"]) == ("adult", None, "eb06da7b2365")


def test_rows_without_a_version_are_refused(tmp_path):
    refuse_old_rows(tmp_path, [{"seed": 0, "version": 1}])
    with pytest.raises(ValueError, match="earlier layout"):
        refuse_old_rows(tmp_path, [{"seed": 0, "version": 1}, {"seed": 1}])


def test_no_commit_of_somebody_elses_repository(tmp_path, monkeypatch):
    "A package in an environment inside another repository does not name that one's commit."
    package = tmp_path / "env" / "site" / "fairw2_nb"
    package.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr("fairw2_nb.__file__", str(package / "__init__.py"))
    assert provenance()["commit"] == ""
