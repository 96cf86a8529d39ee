"""Several processes, really started: the same gradients and weights as one, and no waiting for the dead."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from conftest import ROOT

LIMIT = 180  # seconds until a hanging process is a failure; they need about ten

SETUP = """
import json, os, sys, torch
torch.set_num_threads(1)
from fairw2_nb import WassersteinPenalty, fit, synthetic_logistic
from fairw2_nb.basics.processes import as_world, join_world
from fairw2_nb.models.networks import mlp
rank = int(os.environ.get("RANK", 0))
"""


def launch(script, folder, processes, *words):
    "Start a script under torchrun."
    file = folder / "script.py"
    file.write_text(SETUP + textwrap.dedent(script))
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes),
                    "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, str(file), *map(str, words)], cwd=folder, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(script, folder, processes, *words):
    "What a script under torchrun prints, which must end well."
    process = launch(script, folder, processes, *words)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err[-3000:]
    return out


GRADIENTS = """
from torch import nn
gen = torch.Generator().manual_seed(0)
x, s = torch.randn(96, 3, generator=gen, dtype=torch.float64), torch.arange(96) % 5 % 3
y = (torch.rand(96, generator=gen) < .5).double()
net = nn.Linear(3, 1, dtype=torch.float64)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[1., -2., .5]]))
    net.bias.zero_()
join_world()
world = as_world()
cuts = {1: [0, 96], 2: [0, 17, 96], 3: [0, 40, 40, 96], 4: [0, 5, 6, 90, 96]}[world.size]
own = slice(cuts[world.rank], cuts[world.rank + 1])
found = {}
KINDS = dict(two=dict(), three=dict(), error=dict(on="error"), each=dict(given="each"),
             w1=dict(p=1), relative=dict(relative=True), ring=dict(reference=50))
for name, options in KINDS.items():
    penalty, values = WassersteinPenalty(**options), []
    groups = s if name == "three" else (s > 0).long()
    for _ in range(2): # the second time with what the ring remembers
        net.zero_grad()
        w = penalty(net(x[own])[:, 0].sigmoid(), groups[own], y[own])
        w.backward()
        world.mean_gradients(net.parameters())
        values.append([w.item(), *net.weight.grad[0].tolist(), net.bias.grad.item()])
    found[name] = values
kept = penalty.ring.filled()[0].tolist() # the last one has a ring
assert all(other == kept for other in world.objects(kept))
if rank == 0: print(json.dumps(found))
"""


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_gradients_equal_those_of_one_process(processes, tmp_path):
    "Uneven pieces, one of them empty, one of a single row."
    one, several = (json.loads(run(GRADIENTS, tmp_path, k)) for k in (1, processes))
    for name in one:
        a, b = torch.tensor(several[name]), torch.tensor(one[name])
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-12, msg=f"{name}: {a} and {b}")


TRAINING = """
from fairw2_nb.training.lambdas import TargetTuner
train, valid = synthetic_logistic(1010).split(.25, seed=0)
lam, data = {"fixed": 5., "tuned": TargetTuner(.6, acc=.5, warm_up=1)}[sys.argv[1]], train
net = mlp(8, (16,), rank) # other weights in each process: the first one's count
import warnings
warnings.simplefilter("ignore")
history = fit(net, data, lam=lam, valid=valid, epochs=13, batch_size=90, progress=False)
if rank == 0:
    print(json.dumps([[p.tolist() for p in net.parameters()], [r["DI"] for r in history]]))
"""


@pytest.mark.parametrize("processes, kind", [(2, "tuned"), (4, "fixed")])
def test_training_equals_that_of_one_process(processes, kind, tmp_path):
    "More than a hundred steps; 757 rows in batches of 90 leave 37 for the last."
    one, several = (json.loads(run(TRAINING, tmp_path, k, kind)) for k in (1, processes))
    for a, b in zip(several[0], one[0]):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.tensor(several[1]), torch.tensor(one[1]), rtol=1e-3, atol=0.)


PARTS = """
data = synthetic_logistic(900)
part = data[:700] if rank == 0 else data[700:] # each process brings its own
net = mlp(8, (16,), 0)
history = fit(net, part, lam=5., epochs=2, batch_size=100, progress=False)
told = as_world().objects([p.tolist() for p in net.parameters()])
assert told[0] == told[1] # the same network everywhere
if rank == 0: print(json.dumps([len(history), history[-1]["DI"]]))
"""


def test_each_process_may_bring_its_own_data(tmp_path):
    epochs, di = json.loads(run(PARTS, tmp_path, 2))
    assert epochs == 2 and 0 <= di <= 1


REFUSALS = """
from fairw2_nb.penalty.loss import WassersteinPenalty as W
kind = sys.argv[1]
try:
    if kind == "no group": W()(torch.rand(4), torch.tensor([0, 1, 0, 1]))
    join_world()
    if kind == "settings": W(p=1 + rank)(torch.rand(4), torch.tensor([0, 1, 0, 1]))
    if kind == "labels": W(on="score")(torch.rand(4), torch.tensor([0, 1, 0, 1]),
                                       torch.ones(4) if rank else None)
    if kind == "fit": fit(mlp(8, (4,), 0), synthetic_logistic(100), epochs=1, lam=float(rank),
                          batch_size=50, progress=False)
    if kind == "nan": W()(torch.tensor([.1, float("nan") if rank else .3]), torch.tensor([0, 1]))
    print(json.dumps([rank, "nothing was refused"]), flush=True)
except ValueError as e: print(json.dumps([rank, str(e)]), flush=True)
"""


@pytest.mark.parametrize("kind, words", [
    ("no group", "init_process_group"), ("settings", "different settings"),
    ("fit", "different settings: lam"), ("nan", "NaN or infinite")])
def test_all_processes_say_what_is_wrong(kind, words, tmp_path):
    told = [json.loads(line) for line in run(REFUSALS, tmp_path, 2, kind).splitlines()]
    assert sorted(rank for rank, _ in told) == [0, 1]
    assert all(words in sentence for _, sentence in told), told


ABSENT = """
import warnings
join_world()
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    value = WassersteinPenalty()(torch.rand(5, requires_grad=True), torch.zeros(5).long()).item()
print(json.dumps([rank, value, [str(w.message) for w in seen]]), flush=True)
"""


def test_a_world_without_a_group(tmp_path):
    told = [json.loads(line) for line in run(ABSENT, tmp_path, 2).splitlines()]
    for _, value, warned in told: assert value == 0 and "the penalty is 0" in warned[0]


KILLED = """
import time
net = mlp(8, (16,), 0)
def look(net):
    if rank == 1: open("pid", "w").write(str(os.getpid()))
    time.sleep(float(sys.argv[2]))
history = fit(net, synthetic_logistic(600), lam=3., epochs=6, batch_size=100, progress=False,
              checkpoint=sys.argv[1], watch=look)
if rank == 0: print(json.dumps([p.tolist() for p in net.parameters()]))
"""


def test_a_killed_process_ends_all_and_a_restart_goes_on(tmp_path):
    whole = run(KILLED, tmp_path, 2, tmp_path / "whole.pt", 0)
    process = launch(KILLED, tmp_path, 2, tmp_path / "run.pt", .05)
    start = time.monotonic()
    while not ((tmp_path / "pid").exists() and (tmp_path / "run.pt").exists()):
        assert time.monotonic() < start + LIMIT and process.poll() is None
        time.sleep(.05)
    (tmp_path / "pid").unlink()
    while not (tmp_path / "pid").exists(): time.sleep(.02)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    killed = time.monotonic()
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode != 0 and time.monotonic() - killed < 60
    assert "lost another one" in err or "SIGTERM" in err
    assert run(KILLED, tmp_path, 2, tmp_path / "run.pt", 0) == whole
