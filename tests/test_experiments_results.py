"""Rows survive kills, cut lines and full disks, and nothing is run twice."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from fairw2_nb.experiments.results import append_row, missing, read_rows, run_missing, set_aside
from hypothesis import given
from hypothesis import strategies as st

plain = st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=9), st.booleans(), st.none()), max_size=4)


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


def test_missing_compares_all_settings():
    rows = [{"seed": 0, "batch": 16, "DI": .5}]
    assert missing([{"seed": 0, "batch": 16}, {"seed": 0, "batch": 50}, {"seed": 0, "other": 1}], rows) == [{"seed": 0, "batch": 50}, {"seed": 0, "other": 1}]


SWEEP = textwrap.dedent("""
    import sys, time
    from fairw2_nb.experiments.results import run_missing
    def run(seed):
        time.sleep(.15)
        return {"square": seed ** 2}
    run_missing(run, [{"seed": k} for k in range(12)], sys.argv[1], workers=int(sys.argv[2]))
""")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_sweep_resumes(tmp_path, workers):
    script, path = tmp_path / "sweep.py", tmp_path / "rows.jsonl"
    script.write_text(SWEEP)
    command = [sys.executable, str(script), str(path), str(workers)]
    for _ in range(2): # kill it, and again
        before = len(read_rows(path))
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 60
        while len(read_rows(path)) < before + 2 and time.monotonic() < deadline:
            time.sleep(.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kept = read_rows(path)
    assert len(kept) >= 4
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    rows = read_rows(path)
    assert rows[: len(kept)] == kept # nothing lost, nothing repeated
    assert sorted(r["seed"] for r in rows) == list(range(12)) and all(r["square"] == r["seed"] ** 2 for r in rows)
    assert all({"duration", "python", "torch", "fairw2_nb"} <= r.keys() for r in rows)


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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        append_row(tmp_path / "rows.jsonl", {"seed": 0})


def test_results_of_other_settings_are_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    run_missing(lambda seed: {}, [{"seed": k} for k in range(3)], path)
    assert len(run_missing(lambda seed: {}, [{"seed": 1}], path)) == 1
