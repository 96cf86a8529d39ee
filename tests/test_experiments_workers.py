"""Processes end with their master, stop when asked, and may die on a cluster: no row is lost."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import pytest
from fairw2_nb.cli import main
from fairw2_nb.experiments import workers
from fairw2_nb.experiments.experiment import Experiment, run_rows
from fairw2_nb.experiments.results import read_rows

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
SWEEP = textwrap.dedent("""
    import sys, time
    from fairw2_nb.cli import in_words
    from fairw2_nb.experiments.experiment import Experiment, run_rows
    def run(seed):
        time.sleep(.2 if seed < 2 else 60)
        return {"square": seed ** 2}
    exp = Experiment("toy", "", run, grid=None, table=None, legend="")
    settings = [{"seed": k} for k in range(6)]
    in_words(run_rows, exp, settings, sys.argv[1], "main", 2, *sys.argv[2:])
""")


def marked(mark):
    "Processes with this word in their environment; dead ones that nobody buried do not count."
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit(): continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if mark.encode() in (entry / "environ").read_bytes() and state != "Z":
                found.append(int(entry.name))
        except OSError: pass
    return found


def start(folder, *words):
    "Start a sweep of six runs, and wait until two are done and the others are at work."
    script, mark = folder / "sweep.py", uuid.uuid4().hex
    script.write_text(SWEEP)
    process = subprocess.Popen([sys.executable, str(script), str(folder), *words], text=True,
                               stderr=subprocess.PIPE, env=os.environ | {"MARK": mark})
    deadline = time.monotonic() + 100
    while len(read_rows(folder / "toy.jsonl")) < 2 and time.monotonic() < deadline:
        time.sleep(.1)
    assert len(marked(mark)) >= 3 # it and its workers
    return process, mark


def left_over(mark, seconds=5):
    "What is still there after some seconds; it is ended."
    deadline = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < deadline: time.sleep(.1)
    left = marked(mark)
    for pid in left: os.kill(pid, signal.SIGKILL)
    return left


@linux
def test_no_orphans_after_kill_9(tmp_path):
    process, mark = start(tmp_path)
    process.kill()
    process.wait()
    assert left_over(mark) == []
    assert sorted(row["seed"] for row in read_rows(tmp_path / "toy.jsonl")) == [0, 1]


@linux
def test_sigterm_is_like_control_c(tmp_path):
    process, mark = start(tmp_path)
    process.terminate()
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and "Finished rows are kept" in said
    assert "Traceback" not in said and left_over(mark) == []
    assert sorted(row["seed"] for row in read_rows(tmp_path / "toy.jsonl")) == [0, 1]


def test_a_worker_that_dies_here_is_named(tmp_path):
    def run(seed):
        if seed: os.kill(os.getpid(), signal.SIGKILL)
        return {}
    exp = Experiment("toy", "", run, grid=None, table=None, legend="")
    with pytest.raises(ValueError, match="A worker died .* Finished rows are kept"):
        run_rows(exp, [dict(seed=k) for k in range(2)], tmp_path, workers=2)


def test_without_dask_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(workers, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        main(["run", "demo", "--steps", "1", "--cluster", "local", "--out", str(tmp_path)])
    assert 'pip install "fairw2_nb[cluster]"' in capsys.readouterr().err


def test_no_scheduler_and_no_cluster_for_what_is_timed(tmp_path, capsys):
    pytest.importorskip("distributed")
    for name, address, words in [
            ("demo", "tcp://127.0.0.1:9", "No Dask scheduler answers at tcp://127.0.0.1:9"),
            ("demo", "nonsense://x", "No Dask scheduler answers at nonsense://x"),
            ("memory", "local", "memory measures time or memory")]:
        with pytest.raises(SystemExit) as stop:
            main(["run", name, "--cluster", address, "--out", str(tmp_path)])
        assert stop.value.code == 2 and words in capsys.readouterr().err
    assert not read_rows(tmp_path / "demo.jsonl")


def dask(folder, *words):
    "Start a command of Dask."
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard", "--scheduler-file",
               str(folder / "at.json")]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)


NAPS = textwrap.dedent("""
    import os, sys, time
    from fairw2_nb.experiments.experiment import Experiment, run_rows
    def nap(seed, folder):
        while seed and not os.path.exists(f"{folder}/go"): time.sleep(.1)
        return {"process": os.getpid()}
    exp = Experiment("naps", "", nap, grid=None, table=None, legend="")
    settings = [dict(seed=k, folder=sys.argv[1]) for k in range(4)]
    run_rows(exp, settings, sys.argv[1], cluster=sys.argv[2])
""")


def test_all_workers_of_a_cluster_may_die_and_others_come(tmp_path):
    "Nobody is left for a while; a worker that comes later does the rest."
    pytest.importorskip("distributed")
    started = [dask(tmp_path, "scheduler", "--host", "127.0.0.1", "--port", "0")]
    try:
        while not (tmp_path / "at.json").exists(): time.sleep(.1)
        worker = "worker", "--nthreads", "1", "--no-nanny"
        started.append(first := dask(tmp_path, *worker))
        at = json.loads((tmp_path / "at.json").read_text())["address"]
        sweep = subprocess.Popen([sys.executable, "-c", NAPS, str(tmp_path), at])
        started.append(sweep)
        while not read_rows(tmp_path / "naps.jsonl") and sweep.poll() is None: time.sleep(.05)
        first.kill()
        first.wait()
        (tmp_path / "go").touch()
        started.append(second := dask(tmp_path, *worker))
        assert sweep.wait(timeout=100) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()
    made = {row["seed"]: row["process"] for row in read_rows(tmp_path / "naps.jsonl")}
    assert made == {0: first.pid} | {seed: second.pid for seed in (1, 2, 3)}
