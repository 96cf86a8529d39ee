"""What a training goes on from, what a method is given and what a row is made of, by number.

As in `test_guards.py`, nothing is compared with another part of the package."""
import copy
import random
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.data import archive, celeba as celeba_files, census
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.faces import FaceDataset, tile
from fairw2_nb.data.mnist import DigitDataset, semi_random
from fairw2_nb.data.synthetic import synthetic_biased, synthetic_logistic
from fairw2_nb.experiments import ages, celeba, cost, exchange, faults, frontier, groups
from fairw2_nb.experiments import lambda_transfer, memory, methods, peers, references, results
from fairw2_nb.experiments import debiased as small_batches, steering as steering_rows
from fairw2_nb.metrics.counts import crossed_groups
from fairw2_nb.metrics.disparities import demographic_parity_difference, disparate_impact
from fairw2_nb.metrics.disparities import score_distance
from fairw2_nb.models.networks import CentreBytes, digit_cnn, mlp
from fairw2_nb.penalty.loss import wasserstein_penalty, WassersteinPenalty
from fairw2_nb.training import checkpoint, steering
from fairw2_nb.training.loop import fit, should_stop
from fairw2_nb.training.state import Training
from test_guards import both_close, by_hand, by_pairs, descent, draw, Line, table
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


@pytest.mark.parametrize("keep", [0., .7])
def test_a_ring_goes_on_from_a_checkpoint(tmp_path, keep):
    "Two epochs after one: weights, their average, batches and scores as if never interrupted."
    data = table(110, 0)
    _, theta, mean = by_hand(data, 3., 3, 50, .5, ring=60, keep=keep)
    for epochs in (1, 3):
        net = Line()
        fit(net, data, lam=3., penalty=WassersteinPenalty(reference=60), epochs=epochs,
            batch_size=50, opt=descent(.5), average=keep, checkpoint=tmp_path / "a.pt",
            progress=False)
    found = net.theta.detach().double()
    assert_close(found, mean if keep else theta, rtol=1e-4, atol=1e-5)


def test_generators_are_left_as_they_were():
    "Of Python, NumPy and torch: each goes on as one that nobody disturbed."
    with checkpoint.undisturbed():
        random.seed(1)
        np.random.seed(2)
        torch.manual_seed(3)
        with checkpoint.undisturbed(): random.random(), np.random.rand(700), torch.rand(9)
        found = random.random(), np.random.rand(), torch.rand(1).item()
    wanted = (random.Random(1).random(), np.random.RandomState(2).rand(),
              torch.rand(1, generator=torch.Generator().manual_seed(3)).item())
    assert found == pytest.approx(wanted)


def test_weights_from_before_are_those_of_the_average_too():
    run = Training(Line(), None, None, table(20, 0), keep=.5)
    before = run.weights()
    with torch.no_grad():
        for k, net in enumerate((run.model, run.average)): net.theta += 1 + k
    moved = [v["theta"] for v in run.weights()]
    run.put_back(before)
    for net, theta in zip((run.model, run.average), moved):
        assert_close(net.theta.detach(), torch.tensor([.3, -.2, .1, .05]))
        assert not torch.equal(net.theta, theta)


def test_patience_counts_from_the_first_of_equal_epochs():
    rows = [dict(objective=v) for v in (2., 1., 1., 1.)]
    assert [should_stop(rows[:k], 2) for k in range(5)] == [False, False, False, False, True]


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


def test_digit_network_step_by_step():
    "Convolution, the largest of four neighbours, what is above 0: three times; two dense layers."
    net, x = digit_cnn(0), torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    *convolutions, hidden, last = [m for m in net if isinstance(m, (nn.Conv2d, nn.Linear))]
    z = x
    for layer in convolutions:
        around = nn.functional.unfold(z, 3, padding=1) # neighbours as columns
        z = layer.weight.flatten(1) @ around + layer.bias[:, None]
        side = int(z.shape[-1] ** .5)
        z = z.view(5, -1, side, side)[..., :side // 2 * 2, :side // 2 * 2]
        z = z.unflatten(-1, (-1, 2)).unflatten(2, (-1, 2)).amax((3, 5)).clamp(min=0)
    z = (z.flatten(1) @ hidden.weight.T + hidden.bias).clamp(min=0)
    assert_close(net(x), (z @ last.weight.T + last.bias)[:, 0], rtol=1e-4, atol=1e-5)


def test_bytes_from_minus_one_to_one():
    x = torch.tensor([0, 51, 204, 255], dtype=torch.uint8)
    assert CentreBytes()(x).tolist() == pytest.approx([-1, -.6, .6, 1])


def test_attributes_as_flags_and_codes_of_parts():
    "-1 and 1, or 0 and 1; CelebA numbers its parts 0, 1, 2."
    for low in (-1, 0):
        found = celeba_files.as_flags(pd.DataFrame({"a": [low, 1, low], "b": [1, 1, low]}))
        assert found.to_numpy().tolist() == [[0, 1], [1, 1], [0, 0]]
    flags = pd.DataFrame({"a": [0, 1] * 3})
    tables = {"attributes": flags, "partition": pd.DataFrame({"code": [0, 0, 1, 1, 2, 2]})}
    parts = [celeba_files.rows_of_part(part, tables, ["a"]) for part in ("train", "valid", "test")]
    assert parts == [slice(0, 2), slice(2, 4), slice(4, 6)]


def test_tiles_by_a_loop():
    "Five images of 2 x 3 pixels, three in a row; white at the end."
    x = torch.rand(5, 3, 2, 3, generator=torch.Generator().manual_seed(0))
    wanted = np.ones((4, 9, 3), np.float32)
    for k, image in enumerate(x.numpy()):
        for i, j in np.ndindex(2, 3): wanted[2 * (k // 3) + i, 3 * (k % 3) + j] = image[:, i, j]
    np.testing.assert_array_equal(tile(x, 3), wanted)


def test_every_seven_is_falsified_as_often():
    "In 65 of a hundred draws, 13 of 20 at a time."
    k = torch.arange(60)
    data = DigitDataset(torch.zeros(60, 1, 28, 28), k % 2, torch.where(k < 40, 7, 3))
    draw = torch.Generator().manual_seed(0)
    rows = torch.stack([semi_random(data, draw) for _ in range(500)])
    often = rows.flatten().bincount(minlength=60) / 500
    assert rows.shape == (500, 13) and often[1::2].sum() == often[40:].sum() == 0
    np.testing.assert_allclose(often[:40:2], .65, atol=.1)


def test_places_of_birth_by_their_codes():
    "Below 100 the country, then a continent for each hundred, and Oceania from 500 on."
    codes = [1, 99, 100, 250, 300, 440, 500, 554]
    fixed = dict(AGEP=30, SCHL=20, WKHP=40, COW=1, MAR=1, RELP=0, OCCP=10, SEX=1, RAC1P=1, PINCP=0)
    found = census.with_names(pd.DataFrame(fixed | {"POBP": codes}))
    assert found.POBP.tolist() == ["US", "US", "Europe", "Asia", "Americas", "Africa", "Oceania",
                                   "Oceania"]


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
        f = torch.cat([a, b]).requires_grad_()
        found = peers.DualPenalty(.2)(f, torch.tensor(s))
        assert found.item() == pytest.approx(.5 - .2, rel=1e-6)
        assert torch.autograd.grad(found + 0 * f.sum(), f)[0].tolist() == [-.5, -.5, .5, .5]
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
    asked = []

    def penalised(job, penalty):
        asked.append((job.batch, job.strength, job.epochs, penalty and penalty.debias))
        return torch.tensor(f)
    monkeypatch.setattr(ages, "cut_by_age", lambda *_: (test, test))
    monkeypatch.setattr(ages, "penalised", penalised)
    row, yes = ages.ages_run(10, 1., 0), f > .5
    ages.ages_run(10, 0., 0)
    assert asked == [(512, 1., 12, True), (512, 0., 12, None)]

    def R(x):
        "Distance correlation."
        x, z = x.astype(float), test.x[:, 0].numpy().astype(float)
        return (by_loops(x, z) / (by_loops(x, x) * by_loops(z, z)) ** .5) ** .5
    rates = [yes[np.argsort(age)[4 * k:4 * k + 4]].mean() for k in range(10)]
    wanted = {"Acc": (yes == y).mean(), "R": R(f), "R_yes": R(yes), "R_y": R(y),
              "gap": max(rates) - min(rates), "positives": yes.mean()}
    assert row == pytest.approx(wanted, rel=1e-5)


def test_gap_of_the_oldest_tenth():
    "Nobody else is told yes, in whatever order the rows are."
    age = np.random.default_rng(0).permutation(100)
    assert ages.rate_gap((age >= 90).astype(float), age) == 1


def test_pieces_of_age_are_of_equal_size(monkeypatch):
    "Four pieces of sixty ages; age is an input, and neither its piece nor the second education."
    k = np.arange(60)
    income = np.where(k % 3, ">50K", "<=50K")
    frame = pd.DataFrame({"age": 17 + k, "education": "a", "income": income, "hours": 40. + k % 7})
    monkeypatch.setattr(ages, "adult_frame", lambda: frame)
    train, test = ages.cut_by_age(4, 0, stratify=True)
    assert (train.s.bincount() + test.s.bincount()).tolist() == [15] * 4
    assert train.names == ["age", "hours"] and np.ptp(ages.age_of(train)) > 3


@pytest.mark.parametrize("column", ["ids", "x", "y", "s"])
def test_faces_that_differ_in_one_place(column):
    k = torch.arange(40)
    x, flags = torch.zeros(40, 3, 4, 4, dtype=torch.uint8), torch.stack([k % 2, k // 2 % 2], 1)
    faces = FaceDataset(x, flags, ["Attractive", "Young"])
    other = faces.apply(torch.clone)
    getattr(other, column)[7] += 1
    assert celeba.content_digest(faces) != celeba.content_digest(other)
    assert celeba.content_digest(faces) == celeba.content_digest(faces.apply(torch.clone))


def test_a_row_of_many_groups_has_two_parts(monkeypatch):
    "Told yes: all whose input is above 0; reported are those of the fold, chosen by the others."
    x = torch.tensor([1., -1, 1, -1, 1, 1, -1, -1, 1, -1])[:, None]
    data = FairDataset(x, [1, 0, 0, 1, 1, 0, 1, 0, 1, 1], [0, 0, 1, 1, 2, 2, 0, 1, 2, 2])
    jobs = []

    def run(job):
        jobs.append((job.batch, job.strength, job.epochs, job.seed))
        return (job.test.x[:, 0] > 0).float()
    monkeypatch.setattr(groups, "parts", lambda table, fold: (data, data[:6], data[6:]))
    monkeypatch.setitem(groups.METHODS, "W2", methods.Method(run))
    row = groups.groups_run("race", "W2", 8., 3)
    assert jobs == [(512, 8., 20, 3)]
    assert (row["n"], row["yes"], row["right"]) == ([1, 1, 2], [0, 0, 1], [0, 1, 1])
    held = [row[f"valid_{name}"] for name in ("n", "yes", "right")]
    assert held == [[2, 2, 2], [1, 1, 2], [2, 0, 1]]
    assert (row["Acc"], row["valid_Acc"]) == (.5, .5)


def test_folds_of_uneven_groups_are_counted():
    rows = pd.DataFrame([dict(n=[90, 10], yes=[45, 1], right=[81, 5], strength=2.),
                         dict(n=[90, 10], yes=[36, 3], right=[72, 9], strength=1.)])
    found = groups.pooled(rows)
    assert (found.accuracy, found.positives) == pytest.approx((167 / 200, 85 / 200))
    assert (found.DI, found.gap) == pytest.approx((.2 / .45, .25))
    assert (found.folds, found.strength) == (2, "1 or 2")


def test_of_equal_strengths_the_weakest_is_chosen():
    frame = pd.DataFrame([dict(table="t", method="W2", fold=0, strength=k, valid_Acc=.8,
                               valid_yes=[90, 100], valid_n=[200, 200]) for k in (8., 4., 16.)])
    assert groups.chosen_strengths(frame).strength.tolist() == [4.]


def test_scores_moved_all_the_way_and_half(monkeypatch):
    "EquiPy's epsilon is what stays: 0 at strength 1."
    class Move:
        def fit(self, f, s): self.fitted = f, s

        def transform(self, f, s, epsilon): return f * 0 + epsilon
    package = ModuleType("fairness")
    package.FairWasserstein = Move
    for name in ("equipy", "equipy.fairness"): monkeypatch.setitem(sys.modules, name, package)
    data = synthetic_logistic(60)
    base = SimpleNamespace(predict_proba=lambda x: np.full((len(x), 2), .5))
    monkeypatch.setattr(groups, "plain_classifier", lambda job: (base, None, data))
    for strength, epsilon in ((1., 0.), (.25, .75)):
        found = groups.equipy_scores(peers.Job(data, data, 0, 50, strength, 1))
        assert found.tolist() == [epsilon] * 60


@pytest.mark.parametrize("batch, ring, share", [(16, 1024, .98 ** (1 / 32)), (50, 3200, None),
                                                (512, 4000, .98), (1024, 4000, .9604)])
def test_memory_of_scores_and_of_weights_by_batch(batch, ring, share):
    "At most 64 batches and 4000 scores; the average forgets as fast per observation."
    assert methods.ring_size(batch) == ring
    if share: assert peers.keep_share(batch) == pytest.approx(share)


class Noted(nn.Linear):
    "Notes the rows that it is given."
    def forward(self, x):
        self.seen = getattr(self, "seen", []) + [x.detach()]
        return super().forward(x)[:, 0]


@pytest.mark.parametrize("ring, sizes", [(False, [30, 10]), (True, [10])])
def test_rows_of_each_step_are_drawn_anew(ring, sizes):
    "And those of an explicit reference before them; a ring needs none."
    net, data = Noted(8, 1), synthetic_logistic(500).tensors
    assert lambda_transfer.train_steps(net, data, 1., 10, 30, ring, steps=6) == 6
    assert [len(x) for x in net.seen] == sizes * 6
    for size in sizes:
        rows = {tuple(x) for part in net.seen if len(part) == size for x in part.tolist()}
        assert len(rows) > 4.5 * size and rows <= {tuple(x) for x in data[0].tolist()}


def test_measures_of_fresh_data_by_hand():
    "Told yes: one of three and two of three; five are right."
    f, s = torch.tensor([.9, .2, .1, .8, .7, .3]), torch.tensor([0, 0, 0, 1, 1, 1])
    found = lambda_transfer.measured(f, torch.tensor([1., 0, 0, 1, 1, 1]), s)
    distance = np.sqrt((.2 ** 2 + .5 ** 2 + .1 ** 2) / 3)
    assert found == pytest.approx({"DI": .5, "Acc": 5 / 6, "W2": distance}, rel=1e-6)


def test_rates_of_equal_steps(monkeypatch):
    "From .003 down to nothing on a straight line."
    class Noting(torch.optim.SGD):
        def step(self):
            seen.append(self.param_groups[0]["lr"])
            super().step()
    monkeypatch.setattr(torch.optim, "Adam", Noting)
    data, wanted = synthetic_logistic(50).tensors, [.003 * (1 - k / 4) + 1e-5 for k in range(4)]
    seen, net = [], nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))
    lambda_transfer.train_steps(net, data, 1., 10, 0, steps=4)
    small_batches.small_steps(net, data, "plain", 20, 0, 1., 0, 4)
    np.testing.assert_allclose(seen, 2 * wanted)


def test_objective_and_excess_of_a_reference(monkeypatch):
    "Risk plus λ W_2^2 on the other rows, and how far it is above the best of the same question."
    monkeypatch.setattr(references, "train_side_by_side", lambda *_: None)
    row = references.reference_run(16, 5., .01, 3)
    net, (x, y, s) = mlp(8, (32, 32), 3), synthetic_logistic(20_000, 7).tensors
    with torch.no_grad(): z = net(x).double()
    f = z.sigmoid()
    t = (torch.arange(50_000) + .5) / 50_000
    a, b = ((f[s == k].sort().values)[(t * (s == k).sum()).long()] for k in (0, 1))
    wanted = -torch.where(y == 1, f, 1 - f).log().mean() + 5 * (a - b).square().mean()
    r = [(z > 0)[s == k].double().mean().item() for k in (0, 1)]
    for name in references.held_references(16):
        assert row[name] == pytest.approx(wanted.item(), rel=1e-4)
        assert row[f"DI, {name}"] == pytest.approx(min(r) / max(r))
    names = list(references.held_references(1))
    rows = [dict(batch=b, lam=lam, rate=.01, share=1., seed=0) | dict.fromkeys(names, v)
            for b, lam, v in ((8, 5., .7), (16, 5., .4), (8, 20., .9))]
    rows[1]["auto"] = .5
    found = references.excess(pd.DataFrame(rows))
    np.testing.assert_allclose(found["none"], [.3, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found["auto"], [.3, .1, 0], atol=1e-9)
    table = references.reference_table(pd.DataFrame(rows)).set_index("reference")
    np.testing.assert_allclose(table.loc["none", ["mean", "max"]].astype(float), [.1, .3])


def test_a_row_of_steering_by_counting(monkeypatch):
    "Positives over the base rate of what was trained on; DI and accuracy of the new rows."
    train = FairDataset(torch.zeros(10, 1), torch.arange(10) < 4, torch.arange(10) % 2)
    new = FairDataset(torch.zeros(8, 1), [1, 0, 1, 0, 1, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1])
    pred = torch.tensor([1, 0, 0, 0, 1, 1, 0, 0])
    monkeypatch.setattr(steering_rows, "steering_data", lambda *_: (train, new))
    monkeypatch.setitem(steering_rows.METHODS, "steer", lambda *_: (pred, {"lam": 2.}))
    row = steering_rows.steering_run("7%", 10, .8, 0)
    assert row["positives"] == pytest.approx(.375 / .4) and row["DI"] == pytest.approx(.5)
    assert (row["Acc"], row["lam"], row["beta"], row["undone"]) == (.5, 2., None, 0)


def test_the_controller_sees_rows_of_its_own(monkeypatch):
    "Trained on four fifths, steered by the others, with the batches and the tuner of the rows."
    asked = []

    def fit(net, part, **options):
        asked.append((part, options))
        return [dict(lam=3.)]
    monkeypatch.setattr(steering_rows, "fit", fit)
    data, new = synthetic_logistic(2000, 1), synthetic_logistic(50, 2)
    decisions, noted = steering_rows.by_controller(data, new, .85, 7)
    part, options = asked[0]
    rows = [{tuple(x) for x in of.x.tolist()} for of in (part, options["valid"])]
    assert [len(of) for of in rows] == [1600, 400] and not rows[0] & rows[1]
    tuner = options["lam"]
    assert (options["batch_size"], options["seed"], options["average"]) == (40, 7, .98)
    assert (tuner.target, tuner.acc, tuner.up, tuner.start, tuner.warm_up) == (.85, 0., 1.2, 1., 3)
    assert noted == {"lam": 3.} and decisions.shape == (50,)


def test_tables_and_claims_of_steering(monkeypatch):
    "Names say the base rate; a claim is made with 95%."
    for name, (rate, curved, share) in steering_rows.TABLES.items():
        assert name.split(",")[0] == f"{rate:.0%}" and curved == ("curved" in name)
        assert share == (.05 if "small" in name else .35)
    monkeypatch.setattr(steering_rows, "by_steering", lambda *args, **more: (args, more))
    assert steering_rows.by_certificate(1, 2, .8, 4) == ((1, 2, .8, 4), {"certify": .95})


def test_decisions_as_unequal_and_as_many_as_those_of_another(monkeypatch):
    "Two networks that see one input each; the other method told yes to half, with a DI of 1/3."
    g = torch.Generator().manual_seed(0)
    s = torch.arange(400) % 2
    x = torch.randn(400, 2, generator=g) + torch.stack([2. * s, 0. * s], 1)
    new = FairDataset(x, torch.arange(400) // 2 % 2, s)
    theirs = (torch.arange(400) // 2 % 4 < torch.where(s == 1, 3, 1)).float()

    class Model:
        network_ = SimpleNamespace(networks=[lambda x: x[:, 0], lambda x: x[:, 1]])
        def __init__(self, **options): pass
        def fit(self, *_, **__): return self
    monkeypatch.setattr(steering_rows, "FairMLPClassifier", Model)
    monkeypatch.setattr(steering_rows, "by_reduction", lambda *_: (theirs, {}))
    above, noted = steering_rows.by_matching(new, new, .8, 0)
    rates = [above[s == k].double().mean().item() for k in (0, 1)]
    assert above.sum() == 200 and rates[0] / rates[1] == pytest.approx(1 / 3, abs=.02)
    assert noted["DI_reduction"] == pytest.approx(1 / 3) and 0 < noted["beta"] < 1
    assert noted["Acc_reduction"] == pytest.approx((theirs == new.y).double().mean().item())


def test_curves_of_new_rows_are_those_of_the_worse_group(monkeypatch):
    "Two shifted normal groups at the share that was told yes: a ratio below 1."
    x = torch.cat([torch.linspace(-3, 1, 400), torch.linspace(-1, 3, 400)])[:, None]
    new = FairDataset(x, torch.arange(800) % 2, torch.arange(800) // 400)

    class Model:
        reached_, lam_, beta_, notes_, certificate_ = (.8, .7, .9), 1., .3, ["was undone"], None
        history_ = [{"beta": 0., "DI": .4}, {"beta": .5, "DI": .6}, {"beta": 1., "DI": .9}]
        def __init__(self, **options): pass
        def fit(self, *_, **__): return self
        def predict(self, x): return (x[:, 0] > 1).astype(int)
        def network_(self, x): return x[:, 0]
    monkeypatch.setattr(steering_rows, "FairMLPClassifier", Model)
    pred, noted = steering_rows.by_steering(new, new, .8, 0)
    assert noted.pop("curves") < .3 and pred.sum() == 200
    wanted = {"lam": 1., "beta": .3, "reached": .8, "low": .7, "high": .9, "undone": 1,
              "certified": False, "plain": .4, "penalised": .9}
    assert noted == wanted


def test_peak_and_fastest_step(monkeypatch):
    "Steps of 2, .5 and 3 seconds; a peak of 3 GB, which the system counts in kB."
    class Pool:
        def __init__(self, *_, **__): pass
        def __enter__(self): return self
        def __exit__(self, *_): pass
        def submit(self, f, *args): return SimpleNamespace(result=lambda: (3072.2, [2., .5, 3.]))
    monkeypatch.setattr(memory, "ProcessPoolExecutor", Pool)
    assert memory.memory_run("plain, whole batch", steps=3) == {"peak_MB": 3072, "step_s": .5}
    usage = SimpleNamespace(ru_maxrss=3072 * 1024)
    monkeypatch.setattr("resource.getrusage", lambda who: usage)
    monkeypatch.setattr(memory, "fit", lambda *_, watch, **__: [watch(None) for _ in range(2)])
    monkeypatch.setattr(memory, "resnet18_logit", lambda seed: None)
    peak, times = memory.step_in_process("plain, whole batch", 8, 16, 2)
    assert peak == 3072 and len(times) == 2 and min(times) >= 0
    rows = [dict(kind=kind, peak_MB=mb, step_s=t) for kind, mb, t in
            (("plain, chunks of 250", 1024, 2.), ("plain, whole batch", 3072, 1.))]
    table = memory.memory_table(pd.DataFrame(rows))
    assert table.GB.tolist() == [1, 3] and table.relative.tolist() == [1, .5]


def test_what_a_penalty_adds_to_a_step(monkeypatch):
    "Medians without the first five steps; each kind with its own exchange."
    monkeypatch.setattr(exchange, "DistributedDataParallel", lambda net: net)
    monkeypatch.setattr(exchange, "crowd_of", lambda *_: "gathered")
    monkeypatch.setattr(exchange, "on_grid", lambda *_: "grid")
    times = dict(plain=[], gathered=[], grid=[])

    def one_step(net, opt, x, y, s, crowd, kind):
        if kind != "plain": assert crowd[kind](None) == kind
        times[kind].append(len(times[kind]))
        factor = {"plain": 1, "gathered": 2, "grid": 3}[kind]
        return factor * [9, 9, 9, 9, 9, 1, 2, 6][times[kind][-1]]
    monkeypatch.setattr(exchange, "one_step", one_step)
    found = exchange.time_steps(12, 8)
    assert found == {"plain_ms": 2000., "gathered_ms": 4000., "grid_ms": 6000.}
    table = exchange.exchange_table(pd.DataFrame([dict(ranks=2, n=12) | found]))
    assert table.iloc[0].tolist() == [2000, 2000, 4000]


def test_a_refusal_is_an_answer(monkeypatch, tmp_path):
    "Of six altered checkpoints every other is refused; the others end in other weights."
    runs = iter(["whole", None, *[ValueError, "other"] * 3])

    def train(path=None, epochs=6):
        if path: path.touch()
        found = next(runs)
        if found is ValueError: raise ValueError
        return found
    monkeypatch.setattr(faults, "train", train)
    monkeypatch.setattr(faults, "altered", lambda content, rng: content)
    assert faults.altered_checkpoints(6, None, tmp_path) == (3, 3)


def test_decisions_have_no_distance():
    data = synthetic_logistic(60)
    f = torch.linspace(0, 1, 60)
    assert frontier.measures(f, data, True, "valid_")["valid_W2"] is None
    assert 0 < frontier.measures(f, data, False, "valid_")["valid_W2"] < 1


def test_gap_of_the_scores_whose_errors_are_measured(monkeypatch):
    "Logits of the second group are higher by the gap; of n draws 70% are of it."
    seen = []

    def contestants(f, s, *_):
        seen.append((f.double().logit(), s))
        return {"ours": lambda: (torch.tensor(.1), torch.ones(len(f)))}
    monkeypatch.setattr(cost, "contestants", contestants)
    for gap in (0., 2.): cost.relative_errors("ours", 20_000, gap=gap)
    for (z, s), gap in zip(seen, (0., 2.)):
        assert (z[s].mean() - z[~s].mean()).item() == pytest.approx(gap, abs=.06)
        assert s.double().mean().item() == pytest.approx(.7, abs=.02)


def test_options_replace_what_is_usual(monkeypatch):
    "As do batches that are larger than the data."
    asked, data = [], synthetic_logistic(100)
    monkeypatch.setattr(peers, "fit", lambda net, train, **options: asked.append(options))
    for batch in (512, 64): peers.train_net(peers.Job(data, data, 3, batch, 1., 7))
    job = peers.Job(data, data, 3, 512, 1., 7)
    peers.train_net(job, average=.5, valid=data[:9], batch_size=20)
    found = [(o["average"], len(o["valid"]), o["batch_size"], o["epochs"]) for o in asked]
    assert found == [(.98, 100, 100, 7), (.98 ** .125, 100, 64, 7), (.5, 9, 20, 7)]


def test_which_faces_are_scored(monkeypatch):
    "Test and validation part, and the first of the training part; a point every so many steps."
    k, curves = torch.arange(2100), []
    x, flags = torch.zeros(2100, 3, 1, 1, dtype=torch.uint8), torch.stack([k % 2, k // 2 % 2], 1)
    faces = FaceDataset(x, flags, ["Attractive", "Young"])
    monkeypatch.setattr(celeba, "train_faces", lambda *args: curves.append(args[-1]))
    monkeypatch.setattr(celeba, "score_all", lambda net, part, **_: (part.ids,))
    parts = faces, faces[7:50], faces[60:99]
    for preset, seed in (("quick", 0), ("late", 0), ("tiny", 0), ("quick", 1)):
        found = celeba.scores_on(parts, "score", 1., seed, preset, "bce", None)
    assert [found[name].tolist() for name in ("train", "valid", "test")] == [
        list(range(2000)), list(range(7, 50)), list(range(60, 99))]
    assert [c and c.every for c in curves] == [10, 20, 1, None] and found["curve"] is None


def test_of_two_images_with_one_number_the_first_counts():
    entries = [("a/000001.jpg", "", 5), ("b/1.png", "", 7), ("c/2.jpg", "", 9), ("d/x.jpg", "", 3)]
    found = archive.find_images(SimpleNamespace(entries=entries))
    assert found == {1: entries[0], 2: entries[2]}


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
