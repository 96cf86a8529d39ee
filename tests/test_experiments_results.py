"""Rows survive kills, cut lines, full disks and second writers, and nothing is run twice."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import fairw2_nb
import pytest
from conftest import ROOT
from fairw2_nb.experiments.adult import ADULT
from fairw2_nb.experiments.experiment import run_rows
from fairw2_nb.experiments.results import (
    append_row, as_line, judge, only_writer, provenance, read_rows, refuse_old_rows, set_aside)
from hypothesis import example, given
from hypothesis import strategies as st

values = st.one_of(st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=9),
                   st.booleans(), st.none())
plain = st.dictionaries(st.text(max_size=5), values, max_size=4)


@given(st.lists(plain, max_size=5))
def test_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a" / "rows.jsonl"
    rows = [row | {"number": k} for k, row in enumerate(rows)]
    for row in rows:
        append_row(path, row)
    assert read_rows(path) == rows


def test_a_cut_line_is_kept_aside_and_the_run_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_row(path, {"seed": 0})
    path.write_text(path.read_text() + '{"seed": 1, "DI": 0.')
    append_row(path, {"seed": 2})
    with pytest.warns(UserWarning, match="rows.jsonl: line 2 is not a whole row"):
        assert read_rows(path) == [{"seed": 0}, {"seed": 2}]
    with pytest.warns(UserWarning, match="line 2 .* Kept in rows.jsonl.aside"):
        assert set_aside(path) == 1 and set_aside(path) == 0
    assert (tmp_path / "rows.jsonl.aside").read_text() == '{"seed": 1, "DI": 0.\n'
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
    assert path.read_bytes() == as_line({"seed": 0})


@given(plain.filter(lambda row: "check" not in row), st.data())
@example({}, None)
def test_a_flipped_bit_is_noticed(row, data):
    line = as_line(row).strip()
    assert judge(line) == (row, "")
    k = data.draw(st.integers(0, 8 * len(line) - 1)) if data else 0
    turned = bytearray(line)
    turned[k // 8] ^= 1 << k % 8
    assert judge(bytes(turned))[0] is None


@pytest.mark.parametrize("change, fault", [
    (lambda text: text.replace(b"0.5", b"0.9"), "line 2 was altered"),
    (lambda text: text.replace(b'"check"', b'"chess"', 1), "line 1 has no checksum"),
    (lambda text: text + text.splitlines(True)[0], "line 4 repeats line 1"),
    (lambda text: text + b"[" * 100_000, "line 4 is not a whole row"),
    (lambda text: text.replace(b"seed", b"se\xffd", 1), "line 1 is not a whole row"),
    (lambda text: text.replace(b"\n", b"\x0b", 1), "line 1 is not a whole row"),
    (lambda text: text.replace(b": 0.5", b":  0.5"), "line 2 was altered"),
])
def test_altered_files_are_named_line_by_line_and_nothing_is_lost(tmp_path, change, fault):
    path = tmp_path / "rows.jsonl"
    for seed in range(3): append_row(path, {"seed": seed, "DI": seed / 2})
    path.write_bytes(changed := change(path.read_bytes()))
    with pytest.warns(UserWarning, match=f"{path}: {fault}"):
        before = read_rows(path)
    with pytest.warns(UserWarning, match=f"{path}: {fault}"):
        set_aside(path)
    assert read_rows(path) == before
    kept = path.read_bytes() + path.with_name("rows.jsonl.aside").read_bytes()
    def lines(text): return sorted(line for line in text.split(b"\n") if line)
    assert lines(kept) == lines(changed)


APPENDS = """
import sys, warnings
from fairw2_nb.experiments.results import append_row, set_aside
warnings.simplefilter("ignore")
path, who, repair = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "repair"
for k in range(100):
    if repair and k % 5 == 0: open(path, "a").write("cut short")
    if repair: set_aside(path)
    append_row(path, {"who": who, "k": k})
"""


def test_appends_and_repairs_at_the_same_time_lose_and_double_nothing(tmp_path):
    path = tmp_path / "rows.jsonl"
    command = [sys.executable, "-c", APPENDS, str(path)]
    kinds = "append", "append", "repair"
    both = [subprocess.Popen([*command, str(k), kind]) for k, kind in enumerate(kinds)]
    assert [process.wait(timeout=100) for process in both] == [0, 0, 0]
    found = sorted((row["who"], row["k"]) for row in read_rows(path))
    assert found == [(who, k) for who in range(3) for k in range(100)]
    assert path.with_name("rows.jsonl.aside").read_text().count("cut short") >= 20


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
    settings = [{"seed": k} for k in range(12)]
    if "slow" in sys.argv: settings[1:] = [s | {"pause": 60.} for s in settings[1:]]
    try: run_rows(exp, settings, sys.argv[1], workers=int(sys.argv[2]))
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
    first = start([*command, "1", "slow"], path, 1)
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


def old_file(path, *rows):
    "Rows as they were written once, without checksums."
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("old", ["adult/local-rows.jsonl", "portability/rows.jsonl"])
def test_rows_of_the_old_layout_are_refused_with_a_way_to_move_them(tmp_path, old):
    old_file(tmp_path / old, {"method": "LR", "seed": 0})
    with pytest.raises(ValueError, match=f"{old}.* earlier layout.*tools/move_rows.py"):
        refuse_old_rows(tmp_path / "adult.jsonl")


def test_old_rows_are_moved_and_recognised(tmp_path):
    "Values stay, defaults are filled in, the old file is kept, and nothing is run again."
    old = tmp_path / "adult" / "local-rows.jsonl"
    row = {"method": "LR", "seed": 0, "preset": "quick", "Acc": .8, "data": "eb06da7b2365",
           "duration": 2., "python": "3.11", "machine": "x",
           "fairw2_nb": fairw2_nb.__version__, "torch": "2", "numpy": "2", "scipy": "1"}
    old_file(old, row)
    old_file(tmp_path / "frontier" / "rows.jsonl", row | {
        "batch": 16, "strength": 1., "reference": None, "data": "adult"})
    script = ROOT / "tools" / "move_rows.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    refuse_old_rows(tmp_path / "adult.jsonl")
    moved = read_rows(tmp_path / "adult.jsonl")
    assert row.items() <= moved[0].items() and moved[0]["version"] == 1
    assert json.loads(old.with_name("local-rows.jsonl.moved").read_text()) == row
    frame = run_rows(ADULT, [dict(method="LR", seed=0)], tmp_path)
    assert list(frame.Acc) == [.8] and len(read_rows(tmp_path / "adult.jsonl")) == 1
    other = read_rows(tmp_path / "frontier.jsonl")[0]
    assert (other["table"], other["epochs"], other["data"]) == ("adult", None, "eb06da7b2365")


def test_rows_without_checksums_are_refused_and_can_get_some(tmp_path):
    path = tmp_path / "toy.jsonl"
    old_file(path, {"seed": 0, "version": 1}, {"seed": 1, "version": 1})
    with pytest.raises(ValueError, match=f"Line 1 of {path} is of an earlier layout"):
        refuse_old_rows(path)
    script = ROOT / "tools" / "move_rows.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    refuse_old_rows(path)
    assert read_rows(path) == [{"seed": 0, "version": 1}, {"seed": 1, "version": 1}]


def test_rows_without_a_version_are_refused(tmp_path):
    append_row(path := tmp_path / "toy.jsonl", {"seed": 0, "version": 1})
    refuse_old_rows(path)
    append_row(path, {"seed": 1})
    with pytest.raises(ValueError, match="Line 2 of .*earlier layout"):
        refuse_old_rows(path)


def test_no_commit_of_somebody_elses_repository(tmp_path, monkeypatch):
    "A package in an environment inside another repository does not name that one's commit."
    package = tmp_path / "env" / "site" / "fairw2_nb"
    package.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr("fairw2_nb.__file__", str(package / "__init__.py"))
    assert provenance.__wrapped__()["commit"] == ""
