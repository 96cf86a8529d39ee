"""Several processes, really started: the same steps as one, the same words, no endless waiting.

Three processes by default; FAIRW2_PROCESSES=2,3,4 tries other numbers as well.
"""
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import several
import torch
from conftest import ROOT

LIMIT = 240  # seconds until a hanging process is a failure; they need about ten
NUMBERS = [int(n) for n in os.environ.get("FAIRW2_PROCESSES", "3").split(",")]


def launch(folder, processes, *words):
    "Start several.py under torchrun."
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes),
               "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, str(ROOT / "tests" / "several.py"), *map(str, words)],
                            cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def told(folder, processes, *words):
    "What each process wrote, all of which must end well; they are forked where torch is ready."
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["torch", "torch.distributed"])
    with socket.create_server(("localhost", 0)) as free: port = free.getsockname()[1]
    started = [server.Process(target=several.as_process, daemon=True,
                              args=(k, processes, port, str(folder), *map(str, words)))
               for k in range(processes)]
    for process in started: process.start()
    for process in started: process.join(LIMIT)
    assert [process.exitcode for process in started] == [0] * processes
    return [json.loads((folder / f"rank{k}.json").read_text()) for k in range(processes)]


@pytest.fixture(scope="module", params=NUMBERS)
def found(request, tmp_path_factory):
    "What several processes found."
    return told(tmp_path_factory.mktemp("several"), request.param, "all")


def test_gradients_equal_those_of_one_process(found):
    "Uneven pieces, one of them empty."
    one = several.gradients()
    for name in one:
        for rank in found:
            a, b = torch.tensor(rank["gradients"][name]), torch.tensor(one[name])
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-12, msg=f"{name}: {a} and {b}")


def test_training_equals_that_of_one_process(found):
    weights, rows = several.training()
    for rank in found:
        for a, b in zip(rank["training"][0], weights):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-5)
        a, b = torch.tensor(rank["training"][1]), torch.tensor(rows)
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_each_process_may_bring_its_own_data(found):
    for rank in found: assert rank["own data"][0] == 2 and 0 <= rank["own data"][1] <= 1


@pytest.mark.parametrize("kind, words", [
    ("settings", "different settings"), ("fit", "different settings: penalty, lam"),
    ("nan", "NaN or infinite")])
def test_all_processes_say_what_is_wrong(found, kind, words):
    for rank in found: assert words in rank["refusals"][kind]


def test_a_process_group_that_is_missing(found):
    for rank in found: assert "init_process_group" in rank["early"]


def test_a_world_without_a_group(found):
    for rank in found:
        assert rank["refusals"]["absent"] == 0
        assert "the penalty is 0" in rank["refusals"]["warned"][0]


def test_a_killed_process_ends_all_and_a_restart_goes_on(tmp_path):
    file, pid = tmp_path / "run.pt", tmp_path / "pid"
    process, start = launch(tmp_path, 2, file, .05), time.monotonic()
    while not (pid.exists() and file.exists()) or len(file.read_bytes()) < 5000:
        assert time.monotonic() < start + LIMIT and process.poll() is None
        time.sleep(.05)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT) # torchrun ends the others
    assert process.returncode != 0 and "SIGKILL" in err
    ends = told(tmp_path, 2, file, 0)
    whole = several.to_be_killed(None, 0.)
    for rank in ends:
        for a, b in zip(rank, whole):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-5)
