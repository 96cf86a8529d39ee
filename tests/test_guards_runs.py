"""What a training goes on from, what a method is given and what a row is made of, by number.

As in `test_guards.py`, nothing is compared with another part of the package."""
import copy
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_biased, synthetic_logistic
from fairw2_nb.experiments import ages, cost, frontier, groups, methods, peers, results
from fairw2_nb.experiments import debiased as small_batches
from fairw2_nb.metrics.counts import crossed_groups
from fairw2_nb.metrics.disparities import demographic_parity_difference, disparate_impact
from fairw2_nb.metrics.disparities import score_distance
from fairw2_nb.models.networks import digit_cnn
from fairw2_nb.penalty.loss import wasserstein_penalty, WassersteinPenalty
from fairw2_nb.training import checkpoint, steering
from fairw2_nb.training.loop import fit
from test_guards import by_pairs, both_close, draw
from test_metrics_dependence import by_loops
from torch import nn
from torch.testing import assert_close


# the penalty

def test_every_attribute_is_compared():
    "Three attributes: the mean of three distances."
    f, a, b = draw(90, 8)
    f, c = f.requires_grad_(), torch.arange(90) % 7 // 4
    found = WassersteinPenalty()(f, torch.stack([a, b.long(), c], 1))
    both_close(found, (by_pairs(f, a) + by_pairs(f, b.long()) + by_pairs(f, c)) / 3, f)


def test_relative_distance_where_the_batch_has_one_group():
    "The other group stands in the reference alone; W_2^2 / variance of all, by differences."
    rng = np.random.default_rng(0)
    f, other = rng.random(6), rng.random(6) + .3

    def relative(f):
        gaps = np.sort(f) - np.sort(other)
        return np.mean(gaps ** 2) / np.var(np.concatenate([f, other]))
    free = torch.tensor(f, requires_grad=True)
    ref = torch.tensor(other), torch.ones(6, dtype=torch.long)
    found = WassersteinPenalty(relative=True, reference=0)(free, torch.zeros(6).long(), ref=ref)
    assert found.item() == pytest.approx(relative(f), rel=1e-6)
    found.backward()
    wanted = [(relative(f + e) - relative(f - e)) / 2e-6 for e in 1e-6 * np.eye(6)]
    np.testing.assert_allclose(free.grad, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("column", [lambda s: s, lambda s: s.numpy(), lambda s: s.tolist()])
def test_attributes_in_any_form(column):
    "A tensor, an array or lists of two attributes: the mean of their distances."
    f, a, b = draw(60, 8)
    s = column(torch.stack([a, b.long()], 1))
    wanted = (by_pairs(f, a) + by_pairs(f, b.long())) / 2
    assert_close(wasserstein_penalty(f, s), wanted)
    assert_close(WassersteinPenalty(reference=0)(f, s), wanted)


@pytest.mark.parametrize("keyword", [False, True])
def test_labels_before_predictions_are_not_looked_at(keyword):
    "As fairlearn calls a metric: DI 1/2, parity difference 1/2, W_1 .4, whatever the labels."
    y, s = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    pred, f = np.array([1, 1, 0, 1]), np.array([.9, .7, .2, .6])
    def call(metric, of, **more):
        return metric(y, of, s=s, **more) if keyword else metric(y, of, s, **more)
    assert call(disparate_impact, pred) == pytest.approx(.5)
    assert call(demographic_parity_difference, pred) == pytest.approx(.5)
    assert call(score_distance, f, p=1) == pytest.approx(.4)


# checkpoints

class Slope(nn.Module):
    "One number times the first input."
    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(1))

    def forward(self, x): return x[:, 0] * self.theta


def overshoot(weights):
    "A step that soon goes too far."
    return torch.optim.SGD(weights, 60.)


def test_the_best_epoch_is_remembered_by_a_checkpoint(tmp_path):
    "The best epoch lies before the interruption: its weights come back all the same."
    train, valid = synthetic_logistic(300).split(.4, seed=0)

    def run(epochs, file):
        net, seen = Slope(), []
        rows = fit(net, train, valid=valid, epochs=epochs, batch_size=len(train), opt=overshoot,
                   patience=8, checkpoint=file, progress=False,
                   watch=lambda n: seen.append(n.theta.item()))
        return net.theta.item(), seen, [row["objective"] for row in rows]
    _, first, _ = run(3, tmp_path / "new" / "folder" / "a.pt") # a folder that has to be made
    found, second, objectives = run(7, tmp_path / "new" / "folder" / "a.pt")
    best = int(np.argmin(objectives))
    assert len(first) == 3 and len(second) == 4 and best < 3
    assert found == pytest.approx((first + second)[best]) != pytest.approx(second[-1])


@pytest.mark.parametrize("column", ["x", "y", "s"])
def test_data_that_differ_in_one_place(column):
    data = synthetic_logistic(50)
    other = copy.copy(data)
    changed = getattr(data, column).clone()
    changed[7] = 1 - changed[7]
    setattr(other, column, changed)
    assert checkpoint.data_in_words(data) != checkpoint.data_in_words(other)
    assert checkpoint.data_in_words(data) == checkpoint.data_in_words(copy.deepcopy(data))


def test_settings_of_parts_are_named():
    a, b = (checkpoint.in_words(nn.Sequential(nn.Dropout(p))) for p in (.1, .2))
    assert "p=0.1" in a and "p=0.2" in b


# networks and parts

def test_digit_network_by_counting():
    "Three convolutions of 3 x 3, 28 pixels halved three times, 64 in between; weights by seed."
    wanted = sum(9 * a * b + b for a, b in ((1, 8), (8, 16), (16, 32))) + (9 * 32 + 1) * 64 + 65
    one, same, other = (torch.cat([p.flatten() for p in digit_cnn(k).parameters()])
                        for k in (3, 3, 4))
    assert len(one) == wanted == 24_449
    assert torch.equal(one, same) and not torch.isclose(one, other).all()


@pytest.mark.parametrize("kind", ["table", "other"])
def test_rows_of_a_claim_are_not_trained_on(kind):
    "Three tenths of each group and label, and the others."
    k = torch.arange(400)
    data = FairDataset(k[:, None].float(), k % 2, k // 2 % 2)
    given = data if kind == "table" else torch.utils.data.TensorDataset(*data.tensors)
    if kind == "other": given = [given[i] for i in range(400)]
    train, held = steering._set_aside(given, data.y, data.s, torch.Generator().manual_seed(0))
    numbers = [sorted(int(part[i][0]) for i in range(len(part))) for part in (train, held)]
    assert sorted(numbers[0] + numbers[1]) == list(range(400))
    assert np.bincount(np.array(numbers[1]) % 4).tolist() == [30] * 4


def test_two_intersections_can_be_compared():
    codes, names = crossed_groups(np.array([["a", 0], ["b", 1], ["a", 0]], dtype=object))
    assert codes.tolist() == [0, 1, 0] and len(names) == 2


def test_two_thirds_are_of_group_1():
    assert synthetic_biased(30_000).s.float().mean().item() == pytest.approx(2 / 3, abs=.01)


# methods beside ours

def test_peers_compare_among_those_who_are_asked_for(monkeypatch):
    monkeypatch.setattr(methods, "penalised", lambda job, term: term)
    f, s = torch.tensor([.1, .2, .5, .9, .3, .8]), torch.tensor([0, 0, 0, 1, 1, 1])
    y = torch.tensor([1, 0, 1, 1, 1, 0])
    for given, wanted in ((None, .4), (1, .3)):
        method = methods.in_batch(peers.mean_difference, (1.,), given=given)
        assert method.run(None)(f, s, y).item() == pytest.approx(wanted ** 2), given
        assert method.goal == {None: "parity", 1: "opportunity"}[given]


def test_thresholds_are_fitted_on_other_rows_than_the_network(monkeypatch):
    seen = []
    monkeypatch.setattr(peers, "train_net", lambda job: seen.append(job.train))
    data = synthetic_logistic(500)
    _, part, held = peers.plain_classifier(peers.Job(data, data, 3, 50, 1., 1))
    rows = [{tuple(x) for x in of.x.tolist()} for of in (seen[0], part, held)]
    assert rows[0] == rows[1] and not rows[0] & rows[2] and len(held) == 100


def test_constraint_on_both_sides(monkeypatch):
    "The mean of either group may be at most so much above the other."
    class Dual:
        "Adds up what is above 0."
        def __init__(self, **options): self.options = options

        def forward_update(self, zero, over): return zero + over.clamp(min=0).sum()
    package = ModuleType("dual_optim")
    package.ALM = Dual
    names = "humancompatible", "humancompatible.train", "humancompatible.train.dual_optim"
    for name in names: monkeypatch.setitem(sys.modules, name, package)
    a, b = torch.tensor([.1, .3]), torch.tensor([.6, .8])
    for s in ([0, 0, 1, 1], [1, 1, 0, 0]):
        found = peers.DualPenalty(.2)(torch.cat([a, b]), torch.tensor(s))
        assert found.item() == pytest.approx(.5 - .2, rel=1e-6)
    rates = []
    monkeypatch.setattr(peers, "DualPenalty", lambda bound, rate: rates.append((bound, rate)))
    monkeypatch.setattr(peers, "FairGradPenalty",
                        lambda _, slack, rate: rates.append((slack, rate)))
    monkeypatch.setattr(peers, "penalised", lambda *_: None)
    data = synthetic_logistic(60)
    for batch in (64, 512, 4096):
        job = peers.Job(data, data, 0, batch, .03, 1)
        peers.dual_scores(job)
        peers.fairgrad_scores(job)
    wanted = [(.03, .025), (.03, .01), (.03, .1), (.03, .01), (.03, .1), (.03, .08)]
    np.testing.assert_allclose(rates, wanted, rtol=1e-6)


@pytest.mark.parametrize("batch, n, epochs", [(512, 27_000, 12), (512, 4000, 20), (16, 60_000, 3)])
def test_epochs_of_the_frontier(batch, n, epochs, monkeypatch):
    "Fewer for small batches, (batch / 512)^.4 of twelve, and 80,000 rows at least."
    jobs = []

    def run(job):
        jobs.append(job)
        return torch.linspace(0, 1, len(job.test))
    monkeypatch.setattr(frontier, "find_method", lambda name: methods.Method(run))
    k = torch.arange(n + n // 4 + 100)
    data = FairDataset(k[:, None].float(), k % 2, k // 2 % 2)
    parts = data[:n + n // 4], data[n + n // 4:]
    frontier.frontier_run("any", batch, 1., 0, table=lambda seed: parts)
    assert len(jobs[0].train) == n and jobs[0].epochs == epochs


# rows

def test_a_row_of_ages_by_loops(monkeypatch):
    "Accuracy, dependence of scores, of decisions and of labels on age, and the gap of tenths."
    rng = np.random.default_rng(0)
    age, y, f = rng.random(40), rng.integers(0, 2, 40), rng.random(40)
    test = FairDataset(torch.tensor(age)[:, None], torch.tensor(y), torch.arange(40) % 2,
                       names=["age"])
    monkeypatch.setattr(ages, "cut_by_age", lambda *_: (test, test))
    monkeypatch.setattr(ages, "penalised", lambda job, penalty: torch.tensor(f))
    row, yes = ages.ages_run(10, 1., 0), f > .5

    def R(x):
        "Distance correlation."
        x, z = x.astype(float), test.x[:, 0].numpy().astype(float)
        return (by_loops(x, z) / (by_loops(x, x) * by_loops(z, z)) ** .5) ** .5
    rates = [yes[np.argsort(age)[4 * k:4 * k + 4]].mean() for k in range(10)]
    wanted = {"Acc": (yes == y).mean(), "R": R(f), "R_yes": R(yes), "R_y": R(y),
              "gap": max(rates) - min(rates), "positives": yes.mean()}
    assert row == pytest.approx(wanted, rel=1e-5)


def test_errors_of_contestants_are_those_of_their_gradients():
    row = {"what": "error", "name": "a", "value_error": 2., "grad_error": 3.}
    assert cost._values(row) == {"a": 3.}


def test_gradients_less_a_bias_by_differences():
    "W_2^2 less one or two variances over the count, and less that of groups drawn by lot."
    rng = np.random.default_rng(0)
    f, s = rng.random(20), np.arange(20) % 2

    def W(f, s): return np.mean((np.sort(f[s == 0]) - np.sort(f[s == 1])) ** 2)
    def bias(f): return sum(2 * np.var(f[s == k], ddof=1) / 10 for k in (0, 1))
    lots = np.random.default_rng(5).permutation(s)
    wanted = {"plain": lambda f: W(f, s), "means": lambda f: W(f, s) - bias(f) / 2,
              "flat": lambda f: W(f, s) - bias(f), "relabelled": lambda f: W(f, s) - W(f, lots)}
    for kind, value in wanted.items():
        free = torch.tensor(f, requires_grad=True)
        found = small_batches.debiased(kind, free, torch.tensor(s), None, np.random.default_rng(5))
        assert found.item() == pytest.approx(value(f)), kind
        found.backward()
        slopes = [(value(f + e) - value(f - e)) / 2e-6 for e in 1e-6 * np.eye(20)]
        np.testing.assert_allclose(free.grad, slopes, rtol=1e-5, atol=1e-8, err_msg=kind)


def test_a_row_says_whether_files_were_changed(tmp_path, monkeypatch):
    def git(*words):
        who = "-c", "user.name=a", "-c", "user.email=a@b.c"
        done = subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True,
                              capture_output=True, text=True)
        return done.stdout.strip()
    file = tmp_path / "package" / "__init__.py"
    file.parent.mkdir()
    file.write_text("1\n")
    monkeypatch.setattr(results, "fairw2_nb", SimpleNamespace(__file__=str(file)))
    assert results.code_commit() == ""
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    first = git("rev-parse", "HEAD")[:12]
    assert results.code_commit() == first
    file.write_text("2\n")
    assert results.code_commit() == first + "+"


def test_the_smallest_ratio_counts_every_group():
    "Rates 1, .5 and .4: one observation is enough unless more are asked for."
    yes, n = np.array([1, 50, 40]), np.array([1, 100, 100])
    assert groups.smallest_ratio(yes, n) == pytest.approx((.4, .6))
    assert groups.smallest_ratio(yes, n, 2) == pytest.approx((.8, .1))
