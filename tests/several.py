"""What tests/test_processes.py lets several processes do: run by torchrun, or imported for one."""
import json
import os
import sys
import time
import warnings

import torch
from fairw2_nb import WassersteinPenalty, fit, synthetic_logistic
from fairw2_nb.basics.processes import as_world, join_world, leave_world
from fairw2_nb.models.networks import mlp
from fairw2_nb.penalty import distributed
from fairw2_nb.training.lambdas import TargetTuner
from torch import nn

CUTS = {1: [0, 96], 2: [0, 17, 96], 3: [0, 40, 40, 96], 4: [0, 5, 6, 90, 96]}  # uneven, empty
KINDS = dict(two={}, three={}, error=dict(on="error"), each=dict(given="each"), w1=dict(p=1),
             relative=dict(relative=True), ring=dict(reference=50), auto=dict(reference="auto"),
             debias=dict(debias=True), paper=dict(grad="paper"), ref=dict(reference=0),
             weights=dict(reference=50))


def gradients():
    "Value and gradients of each kind of penalty, twice, so that a ring has something to remember."
    world, gen = as_world(), torch.Generator().manual_seed(0)
    x, s = torch.randn(96, 3, generator=gen, dtype=torch.float64), torch.arange(96) % 5 % 3
    y = (torch.rand(96, generator=gen) < .5).double()
    net = nn.Linear(3, 1, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1., -2., .5]]))
        net.bias.zero_()
    own = slice(*CUTS[world.size][world.rank:world.rank + 2])
    ref = torch.linspace(.1, .7, 31).double()[:, None].expand(31, 2).clone()
    ref[:, 1] = torch.arange(31) % 2
    ref = tuple(world.piece(ref).T) # scores and groups, of each process its own
    found = {}
    for name, options in KINDS.items():
        penalty, groups = WassersteinPenalty(**options), s if name == "three" else (s > 0).long()
        gridless = name in ("relative", "debias", "paper") # gathered, however many there are
        distributed.GATHERED = 95 if gridless else 96
        for k in range(2):
            net.zero_grad()
            f = net(x[own])[:, 0].sigmoid()
            weight = (1. + torch.arange(96) % 3)[own] if name == "weights" else None
            w = penalty(f, groups[own], y[own], ref if name == "ref" else None, weight)
            w.backward()
            world.mean_gradients(net.parameters())
            grads = [*net.weight.grad[0].tolist(), net.bias.grad.item()]
            found[f"{name}, call {k + 1}"] = [w.item(), *grads]
        kept = penalty.ring.filled()[0].tolist() if penalty.ring else []
        assert all(other == kept for other in world.objects(kept)), name
    return found


def training():
    "Weights and history after more than a hundred steps; 757 rows in batches of 90 leave 37."
    train, valid = synthetic_logistic(1010).split(.25, seed=0)
    net = mlp(8, (16,), as_world().rank)  # other weights in each process: the first one's count
    tuner, penalty = TargetTuner(.6, acc=.5, warm_up=1), WassersteinPenalty(reference=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = fit(net, train, lam=tuner, penalty=penalty, valid=valid, epochs=13,
                      batch_size=90, progress=False)
    return [w.tolist() for w in net.parameters()], [(r["lam"], r["DI"]) for r in history]


def own_data():
    "Each process brings its own rows; all end with the same network."
    world, data = as_world(), synthetic_logistic(900)
    cut = [0, 500, 550, 800, 900][world.rank:world.rank + 2]
    net = mlp(8, (16,), 0)
    history = fit(net, data[slice(*cut)], lam=5., penalty=WassersteinPenalty(reference=500),
                  epochs=2, batch_size=100, progress=False)
    nets = world.objects([w.tolist() for w in net.parameters()])
    assert all(other == nets[0] for other in nets)
    return len(history), history[-1]["DI"]


def sentence(call):
    "What a call is refused with."
    try: call()
    except ValueError as e: return str(e)
    return "nothing was refused"


def refusals():
    "Sentences that every process must give."
    rank, pair = as_world().rank, torch.tensor([0, 1])
    bad = torch.tensor([.1, float("nan") if rank else .3])
    data = synthetic_logistic(100)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        absent = WassersteinPenalty()(torch.rand(5, requires_grad=True), torch.zeros(5).long())
    return {
        "settings": sentence(lambda: WassersteinPenalty(p=1 + rank)(torch.rand(2), pair)),
        "nan": sentence(lambda: WassersteinPenalty()(bad, pair)),
        "fit": sentence(lambda: fit(mlp(8, (4,), 0), data, epochs=1, lam=float(rank),
                                    batch_size=50, progress=False)),
        "absent": absent.item(), "warned": [str(w.message) for w in seen],
    }


def to_be_killed(file, pause):
    "A training that tells the number of its second process, and takes its time."
    def look(net):
        if as_world().rank == 1: open("pid", "w").write(str(os.getpid()))
        time.sleep(pause)
    net = mlp(8, (16,), 0)
    fit(net, synthetic_logistic(600), lam=3., epochs=6, batch_size=100, progress=False,
        checkpoint=file, watch=look, penalty=WassersteinPenalty(reference=300))
    return [w.tolist() for w in net.parameters()]


def main(*words):
    "What torchrun, or `as_process`, lets a process do; it writes down what it found."
    torch.set_num_threads(1)
    if words[0] == "all":
        early = sentence(lambda: WassersteinPenalty()(torch.rand(2), torch.tensor([0, 1])))
        join_world()
        told = {"early": early, "gradients": gradients(), "training": training(),
                "own data": own_data(), "refusals": refusals()}
    else:
        told = to_be_killed(words[0], float(words[1]))
    with open(f"rank{os.environ['RANK']}.json", "w") as f: json.dump(told, f)


def as_process(rank, processes, port, folder, *words):
    "One of several processes that a test started itself, as torchrun would have."
    os.chdir(folder)
    place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=processes, MASTER_PORT=port)
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ["MASTER_ADDR"] = "localhost"
    main(*words)
    leave_world()


if __name__ == "__main__": main(*sys.argv[1:])
