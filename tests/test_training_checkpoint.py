"""Checkpoints: continued as the same training, or refused by name."""
import copy

import fairw2_nb
import numpy as np
import pytest
import torch
from fairw2_nb.data.synthetic import synthetic_logistic
from fairw2_nb.models.networks import mlp
from fairw2_nb.penalty.loss import WassersteinPenalty
from fairw2_nb.training import checkpoint
from fairw2_nb.training.lambdas import RampedLambda, ScaledLambda, TargetTuner
from fairw2_nb.training.loop import fit
from fairw2_nb.training.tasks import Binary
from torch import nn

DATA = synthetic_logistic(600)


def train(file, epochs=2, net=None, data=DATA, **options):
    "A short training with a checkpoint."
    options = {"batch_size": 100, "progress": False, "lam": 1., **options}
    net = mlp(8, (16,), 0) if net is None else net
    return net, fit(net, data, epochs=epochs, checkpoint=file, **options)


def doubled(out, y):
    "A loss of one's own."
    return 2 * nn.functional.binary_cross_entropy_with_logits(out, y)


def tripled(out, y):
    "Another one."
    return 3 * nn.functional.binary_cross_entropy_with_logits(out, y)


def moved():
    "The data with one number changed in the seventh digit."
    data = copy.copy(DATA)
    data.x = DATA.x.clone()
    data.x[5, 2] *= 1 + 1e-6
    return data


def sgd(momentum):
    "Plain gradient descent."
    return lambda weights: torch.optim.SGD(weights, .1, momentum=momentum)


OTHERS = { # first training, second training, what the refusal must name
    "tuner": (dict(lam=RampedLambda(1., 3, 9)), dict(lam=1.), "tuner = RampedLambda instead of"),
    "tuner's settings": (dict(lam=TargetTuner(.6, acc=.5, warm_up=1)),
                         dict(lam=TargetTuner(.6, acc=.5, warm_up=1, up=1.3)), "up = 1.1 instead"),
    "alpha": (dict(lam=ScaledLambda(.5, 1)), dict(lam=ScaledLambda(.6, 1)), "alpha = 0.5 instead"),
    "optimiser": ({}, dict(opt=sgd(0.)), "optimiser = Adam"),
    "its settings": (dict(opt=sgd(0.)), dict(opt=sgd(.9)), "momentum=0.0"),
    "loss": ({}, dict(task=Binary("mse")), "task = Binary"),
    "loss of one's own": (dict(task=Binary(doubled)), dict(task=Binary(tripled)), "task = Binary"),
    "outputs": ({}, dict(task=Binary("mse", "scores")), "outputs='scores'"),
    "p": (dict(penalty=WassersteinPenalty()), dict(penalty=WassersteinPenalty(p=1)), "p=1"),
    "on": (dict(penalty=WassersteinPenalty()), dict(penalty=WassersteinPenalty(on="error")),
           "on='error'"),
    "given": (dict(penalty=WassersteinPenalty()), dict(penalty=WassersteinPenalty(given=1)),
              "given=1"),
    "data": ({}, dict(data=moved()), "train = 600 rows"),
    "validation part": (dict(valid=DATA[:200]), dict(valid=DATA[1:201]), "valid = 200 rows"),
    "network": ({}, dict(net=nn.Sequential(nn.Linear(8, 1), nn.Dropout(.1))), "network = "),
    "seed": ({}, dict(seed=4), "seed = 0 instead of 4"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_training_is_refused_by_name(name, tmp_path):
    first, second, words = OTHERS[name]
    train(tmp_path / "run.pt", **first)
    kept = (tmp_path / "run.pt").read_bytes()
    with pytest.raises(ValueError) as e: train(tmp_path / "run.pt", epochs=3, **second)
    assert "cannot be continued" in str(e.value) and words in str(e.value)
    assert (tmp_path / "run.pt").read_bytes() == kept


def test_another_version_is_refused(tmp_path, monkeypatch):
    train(tmp_path / "run.pt")
    monkeypatch.setattr(fairw2_nb, "__version__", "99.0")
    with pytest.raises(ValueError, match="version = .* instead of 99.0"):
        train(tmp_path / "run.pt", epochs=3)


@pytest.mark.parametrize("change", ["missing", "unknown"])
def test_strange_entries_are_named(change, tmp_path):
    train(tmp_path / "run.pt")
    state = checkpoint.open_checkpoint((tmp_path / "run.pt").read_bytes())
    if change == "missing": del state["draws"]
    else: state["draws of yesterday"] = 1
    checkpoint.save_checkpoint(state, tmp_path / "run.pt")
    with pytest.raises(ValueError, match="missing or unknown: draws"):
        train(tmp_path / "run.pt", epochs=3)


def test_no_flipped_bit_is_accepted(tmp_path):
    "Two hundred single bits of a real checkpoint, and a network that stays as it was."
    file = tmp_path / "run.pt"
    train(file)
    whole, gen = file.read_bytes(), np.random.default_rng(0)
    for bit in gen.integers(8 * len(whole), size=200):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="damaged|no checkpoint"):
            checkpoint.open_checkpoint(bytes(flipped))
    file.write_bytes(flipped)
    net = mlp(8, (16,), 0)
    with pytest.raises(ValueError, match="cannot be continued"): train(file, epochs=3, net=net)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), mlp(8, (16,), 0).parameters()))


def test_two_runs_do_not_share_a_checkpoint(tmp_path):
    with checkpoint.only_run(tmp_path / "run.pt"):
        with pytest.raises(ValueError, match="Another run is using"): train(tmp_path / "run.pt")
    train(tmp_path / "run.pt")


def test_planted_links_are_not_followed(tmp_path):
    treasure = tmp_path / "treasure"
    treasure.write_text("precious")
    train(tmp_path / "first.pt")
    (tmp_path / "first.pt.lock").unlink(missing_ok=True)
    for planted in ("run.pt.part", "first.pt.part"): (tmp_path / planted).symlink_to(treasure)
    train(tmp_path / "run.pt")
    checkpoint.save_checkpoint({}, link := tmp_path / "run.pt")
    link.unlink()
    link.symlink_to(treasure)
    checkpoint.save_checkpoint({"epoch": 1}, link)
    assert treasure.read_text() == "precious" and not link.is_symlink()


class Shaken:
    "Items that draw from NumPy's global generator."
    def __len__(self): return 300

    def __getitem__(self, i):
        x, y, s = DATA[i]
        return x + .1 * float(np.random.rand()), y, s


def test_numpys_generator_is_continued(tmp_path):
    def run(epochs, file=None):
        np.random.seed(0)
        return train(file, epochs, data=Shaken())[0]
    whole = run(4)
    run(2, tmp_path / "run.pt")
    np.random.seed(99)
    resumed = train(tmp_path / "run.pt", 4, data=Shaken())[0]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters()))


def test_schedules_are_refused(tmp_path):
    def scheduled(weights):
        opt = torch.optim.Adam(weights)
        schedule = torch.optim.lr_scheduler.ExponentialLR(opt, .99)
        opt.register_step_post_hook(lambda *_: schedule.step())
        return opt
    with pytest.raises(ValueError, match="schedule"): train(tmp_path / "run.pt", opt=scheduled)
