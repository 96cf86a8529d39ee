"""Certificates, intervals, tables and what a row of an experiment is made of, by number.

As in `test_guards.py`, nothing is compared with another part of the package: closed forms, examples
worked by hand, SciPy, and networks that are known."""
import time
import warnings
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.data import adult as adult_data, census, mnist
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_logistic, synthetic_table
from fairw2_nb.data.tables import load_table
from fairw2_nb.data.faces import attribute_ratios, FaceDataset
from fairw2_nb.data.label_files import read_labels
from fairw2_nb.experiments import adult, celeba, celeba_attributes, demo, frontier, groups
from fairw2_nb.experiments import hypervolume, lambda_transfer, methods, peers, references
from fairw2_nb.experiments import debiased as small_batches, mnist as digits, steering
from fairw2_nb.experiments.experiment import Experiment, release, rows_of, run_rows
from fairw2_nb.experiments.methods import Method
from fairw2_nb.metrics.certificate import Certificate, certify, certify_in_order
from fairw2_nb.metrics.certificate import pair_bound, worst_pairs
from fairw2_nb.metrics.counts import crossed_groups
from fairw2_nb.metrics.plots import plot_cdfs, plot_quantiles
from fairw2_nb.metrics.report import fairness_report
from fairw2_nb.models import mlp, networks
from fairw2_nb.models.logistic import FairLogisticRegression
from fairw2_nb.models.logistic_gradient import rounded_costs
from fairw2_nb.models.zafar import ZafarAcceptance, ZafarFalseNegatives
from fairw2_nb.penalty.loss import WassersteinPenalty
from fairw2_nb.training.lambdas import TargetTuner
from fairw2_nb.training.left_out import Aim
from fairw2_nb.training.loop import _usual_penalty
from fairw2_nb.training.mixtures import Blend
from fairw2_nb.training.objective import FixedLambda
from fairw2_nb.training.stacks import Run
from fairw2_nb.training.tasks import Binary
from fairw2_nb.transport.estimation import plug_in_bias, w2_and_variance, w2_interval
from matplotlib import pyplot as plt
from scipy import optimize, special, stats
from sklearn.linear_model import LogisticRegression


# certificates and intervals

def roomy(a, b, p, error):
    "W_p^p by sorting and its room: Bernstein at .8 of the error, a tenth for each spread."
    gaps = np.repeat(np.sort(a), len(b)) - np.repeat(np.sort(b), len(a))
    most = [min(p * (np.std(v, ddof=1) + np.sqrt(2 * np.log(1 / (.1 * error)) / (len(v) - 1))), .5)
            for v in (a, b)]
    log, measured = -np.log(.8 * error), np.mean(np.abs(gaps) ** p)
    room = np.sqrt(2 * log * (most[0] ** 2 / len(a) + most[1] ** 2 / len(b)))
    return measured, room + log / (3 * min(len(a), len(b)))


@pytest.mark.parametrize("p, level", [(1, .95), (2, .95), (1, .8)])
def test_room_of_a_distance(p, level):
    "Spreads are those of samples, with n - 1."
    rng, error = np.random.default_rng(p), 1 - level
    a, b = rng.beta(2, 9, 700), rng.beta(2, 8, 400)
    found = certify(np.r_[a, b], np.repeat([0, 1], [700, 400]), metric=f"W{p}", at_most=.5,
                    level=level)
    measured, room = roomy(a, b, p, error)
    assert found.value ** p == pytest.approx(measured)
    assert found.bound ** p == pytest.approx(measured + room)


def test_each_pair_of_groups_has_its_own_room():
    "Two large groups are far apart; what is not known of a small one counts for its own pairs."
    rng = np.random.default_rng(0)
    parts = rng.beta(2, 9, 900), rng.beta(4, 8, 700), rng.beta(2, 9, 60)
    s = np.repeat([0, 1, 2], [900, 700, 60])
    found = certify(np.concatenate(parts), s, metric="W1", at_most=.5)
    pairs = [roomy(parts[a], parts[b], 1, .05) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert found.value == pytest.approx(max(w for w, _ in pairs))
    assert found.bound == pytest.approx(max(w + room for w, room in pairs))
    assert max(pairs) not in sorted(pairs, key=lambda v: v[1])[-1:]


def test_shares_of_the_error():
    "21/25 for the cut of a large sample, 1/25 for each end of each rate, by SciPy."
    for x_a, n_a, x_b, n_b in ((48_000, 200_000, 60_000, 210_000), (900, 20_000, 60_000, 10 ** 6)):
        ratio = x_a / n_a / (x_b / n_b)
        se = np.sqrt(1 / x_a - 1 / n_a + 1 / x_b - 1 / n_b)
        asked = np.log(ratio / pair_bound(x_a, n_a, x_b, n_b, .05, ratio)) / se
        assert stats.norm.isf(.84 * .05) < asked < 1.05 * stats.norm.isf(.84 * .05)
    ends = stats.binomtest(7, 40).proportion_ci(1 - 2 * .05 / 25, method="exact")
    p_a, p_b = worst_pairs(5, 30, 7, 40, .05, .8, False)
    assert p_b.max() == pytest.approx(ends.high)
    ends = stats.binomtest(5, 30).proportion_ci(1 - 2 * .05 / 25, method="exact")
    assert p_a.min() == pytest.approx(ends.low)


def test_each_candidate_has_its_threshold():
    f, s = np.linspace(0, 1, 400), np.arange(400) % 4 > 1
    _, tried = certify_in_order({"x": f, "y": f ** 2}, s, threshold={"x": .3, "y": .6}, level=.6)
    for name, cut in (("x", .3), ("y", np.sqrt(.6))):
        rates = [np.mean(f[s == k] > cut) for k in (False, True)]
        assert tried[name].value == pytest.approx(min(rates) / max(rates))


def test_nothing_is_promised_of_a_claim_that_is_met_just_so():
    "A ratio of .8 stays at .8, however many observations there are."
    f = np.repeat([1., 0., 1., 0.], [40, 60, 50, 50])
    found = certify(f, np.repeat([0, 1], 100), at_least=.8)
    assert found.value == .8 and found.needed is None


def test_candidates_are_certified_with_their_labels():
    "Rates among the positives, 1/2 and 3/4, where those of all are equal."
    y = np.tile([0, 0, 0, 0, 1, 1, 1, 1], 50)
    s, rows = np.repeat([0, 1], 200), ([0, 1, 1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1, 1, 0])
    f = np.concatenate([np.tile(row, 25) for row in rows])
    try: found = certify_in_order([f], s, y, metric="EO ratio", at_least=.5)[1][0].value
    except ValueError as error: found = str(error)
    assert found == pytest.approx(.5 / .75)


def test_an_even_chance_may_be_asked_for():
    "Its bound lies between what was measured and a surer one."
    f, s = np.arange(400) % 4 / 3, np.arange(400) % 2
    def bound(level):
        try: return certify(f > .5, s, metric="DP difference", at_most=.9, level=level).bound
        except ValueError as error: return str(error)
    assert not isinstance(bound(.5), str), bound(.5)
    assert abs(np.mean(f[s == 0] > .5) - np.mean(f[s == 1] > .5)) < bound(.5) < bound(.95)


def test_sentences_round_to_the_safe_side():
    "A ratio of at least .8496 is not one of at least .850, nor a gap of .0504 one of .050."
    ratio = Certificate("DI", .9, .8496, .8, .95, {"a": 10, "b": 10})
    gap = Certificate("DP difference", .02, .0504, .1, .95, {"a": 10, "b": 10})
    assert "lower bound 0.849 " in ratio.sentence and "upper bound 0.051 " in gap.sentence


def test_variance_and_interval_by_hand():
    "x = (0, 1) onto 2: the pull is (-2, -1), the potential (0, -3/2), its variance 9/16."
    V, variance = w2_and_variance(np.array([0., 1.]), np.array([2.]))
    assert V == pytest.approx((4 + 1) / 2) and variance == pytest.approx(4 * 9 / 16)
    # gaps over two neighbours of (0, 1, 3): one, at the rank 1/2, over 2 · 3
    b = plug_in_bias(np.array([0., 1., 3.]))
    assert b == pytest.approx(.5 * .5 * 9 / 6)
    value, low, high = w2_interval([0., 1., 3.], [4.], ci=.8)
    pull, z = np.array([-4., -3., -1.]), stats.norm.ppf(.9)
    phi = np.array([0., -3.5, -3.5 - 4.])
    V, variance = np.mean(pull ** 2), 4 * np.var(phi, ddof=0) / 2
    sigma2, D = variance / (4 * V), V - b
    middle = D + 2 * z ** 2 * sigma2
    half = z * np.sqrt(4 * sigma2 * D + (2 * z * sigma2) ** 2 + b ** 2)
    assert value == pytest.approx(np.sqrt(V))
    assert (low ** 2, high ** 2) == pytest.approx((max(middle - half, 0), middle + half), abs=1e-12)
    assert w2_interval([4.], [0., 1., 3.], ci=.8) == pytest.approx((value, low, high))


def test_the_report_asks_for_its_own_coverage():
    rng = np.random.default_rng(0)
    f, s = rng.random(200), np.repeat([0, 1], 100)
    f[s == 1] = f[s == 1] ** 2
    ends = {}
    for ci in (.5, .9):
        row = next(r for r in fairness_report(f > .5, f, s, ci=ci).rows if r.metric == "W2")
        ends[ci] = row.low, row.high
        assert ends[ci] == pytest.approx(w2_interval(f[s == 0], f[s == 1], ci)[1:])
    assert ends[.9][0] < ends[.5][0] < ends[.5][1] < ends[.9][1]


# models

@pytest.mark.parametrize("p", [1, 1.5])
def test_rounded_kinks_by_differences(p):
    "(gap² + ε²)^(p/2) - ε^p in the place of |gap|^p, value and slopes."
    rng, eps = np.random.default_rng(0), .1
    x, y = np.sort(rng.random(6)), np.sort(rng.random(4))
    def value(x, y):
        gaps = np.repeat(x, 4) - np.repeat(y, 6)
        return np.mean((gaps ** 2 + eps ** 2) ** (p / 2) - eps ** p)
    found, dx, dy = rounded_costs(eps)(x, y, p)
    assert found == pytest.approx(value(x, y))
    steps = 1e-6 * np.eye(6)
    wanted = [(value(x + e, y) - value(x - e, y)) / 2e-6 for e in steps]
    np.testing.assert_allclose(dx, wanted, rtol=1e-6, atol=1e-9)
    wanted = [(value(x, y + e) - value(x, y - e)) / 2e-6 for e in steps[:4, :4]]
    np.testing.assert_allclose(dy, wanted, rtol=1e-6, atol=1e-9)


def test_equal_scores_share_a_rounded_kink():
    "Two equal scores in each group: up and down by a little, sorted each time, and averaged."
    x, y, eps = np.array([.2, .2, .7]), np.array([.1, .5, .5, .9]), .1

    def value(x, y):
        gaps = np.repeat(np.sort(x), 4) - np.repeat(np.sort(y), 3)
        return np.mean(np.hypot(gaps, eps) - eps)
    _, dx, dy = rounded_costs(eps)(x, y, 1)
    wanted = [(value(x + e, y) - value(x - e, y)) / 2e-6 for e in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(dx, wanted, rtol=1e-5)
    wanted = [(value(x, y + e) - value(x, y - e)) / 2e-6 for e in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(dy, wanted, rtol=1e-5)


def test_kinks_are_rounded_off_to_a_thousandth():
    "The minimum of likelihood, W_1 by sorting and ridge over a grid of one coefficient."
    x, y, s = (v[:60].double().numpy() for v in synthetic_logistic(60).tensors)
    x = x[:, :1]
    def value(c):
        z = c * x[:, 0]
        a, b = (np.sort(special.expit(z[s == k])) for k in (0, 1))
        W = np.mean(np.abs(np.repeat(a, len(b)) - np.repeat(b, len(a))))
        return np.mean(np.logaddexp(0, z) - y * z) + .5 * W + c * c / 120
    model = FairLogisticRegression(p=1, lam=.5, fit_intercept=False).fit(x, y, s)
    best = min(np.linspace(.3, .4, 201), key=value)
    assert model.coef_[0, 0] == pytest.approx(best, abs=2e-3)


def test_a_constant_column_is_as_in_scikit_learn():
    "Its variance is 0 up to rounding, by which nothing is divided."
    x, y, _ = (v.double().numpy() for v in synthetic_logistic(200).tensors)
    x = np.column_stack([x, np.full(200, .1)])
    theirs = LogisticRegression(max_iter=1000, tol=1e-8).fit(x, y).predict_proba(x)
    found = FairLogisticRegression(lam=0.).fit(x, y).predict_proba(x)
    np.testing.assert_allclose(found, theirs, atol=1e-3)


def test_on_the_boundary_as_in_scikit_learn():
    x, y, s = (v.numpy() for v in synthetic_logistic(100).tensors)
    models = [kind(fit_intercept=False) for kind in (FairLogisticRegression, ZafarAcceptance)]
    theirs = LogisticRegression(fit_intercept=False).fit(x, y).predict(np.zeros((1, 8)))
    for model in models: assert model.fit(x, y, s).predict(np.zeros((1, 8))) == theirs == 0


def test_a_target_is_steered_to_as_asked_for(monkeypatch):
    "Every option arrives."
    calls = []

    def steer(model, train, target, metric, **options):
        calls.append((model, train, dict(target=target, metric=metric) | options))
        return SimpleNamespace(lam=0., beta=.5, threshold=.4, reached=1, certificate=None,
                               history=[], notes=[])
    monkeypatch.setattr(mlp, "steer", steer)
    asked = dict(target=.07, metric="EO difference", threshold="accuracy", certify=.9, lam=3.,
                 epochs=9, batch_size=77, lr=.02, seed=4, over="mean")
    x, y, s = (v.numpy() for v in synthetic_logistic(100).tensors)
    model = mlp.FairMLPClassifier(hidden=(5, 3), **asked).fit(x, y, sensitive_features=s)
    net, data, found = calls[0]
    assert found == asked and (model.beta_, model.threshold_, model.lam_) == (.5, .4, 0.)
    assert [w.shape[0] for w in net.parameters() if w.ndim == 2] == [5, 3, 1]
    assert np.array_equal(data.s, s) and np.array_equal(data.y, y)
    mlp.FairMLPClassifier(target=.8).fit(x, y, sensitive_features=s)
    usual = dict(target=.8, metric="DI", threshold="rate", certify=None, lam=1., epochs=30,
                 batch_size=512, lr=.005, seed=0, over="worst")
    assert calls[1][2] == usual
    assert [w.shape[0] for w in calls[1][0].parameters() if w.ndim == 2] == [16, 1]


@pytest.mark.parametrize("n, asked, batch", [(20, 512, 20), (100, 512, 32), (2000, 512, 50),
                                             (2000, 40, 40)])
def test_batches_of_a_classifier(n, asked, batch, monkeypatch):
    "A fortieth of the rows, between 32 and what was asked for; Adam at .001."
    seen = []
    monkeypatch.setattr(mlp, "fit_network", lambda *_, **options: seen.append(options) or [])
    x, y, s = (v.numpy() for v in synthetic_logistic(n).tensors)
    mlp.FairMLPClassifier(batch_size=asked).fit(x, y, sensitive_features=s)
    adam = seen[0]["opt"]([torch.nn.Parameter(torch.zeros(1))])
    assert (seen[0]["batch_size"], adam.defaults["lr"]) == (batch, .001)


def test_passes_go_on_until_the_gap_is_closed():
    "Mean of min(0, z) of the positives, rounded at .01: alike in both groups."
    x, y, s = (v.double().numpy() for v in synthetic_logistic(400).tensors)
    z = ZafarFalseNegatives().fit(x, y, sensitive_features=s).decision_function(x)
    missed = (z - np.hypot(z, .01)) / 2
    assert abs(missed[(y == 1) & (s == 1)].mean() - missed[(y == 1) & (s == 0)].mean()) < 5e-4


def test_both_fits_of_a_constraint_must_converge(monkeypatch):
    "ZFN warns if its second fit used all iterations, and counts those of both."
    x, y, s = (v.numpy() for v in synthetic_logistic(200).tensors)
    n = ZafarFalseNegatives(c=9.).fit(x, y, sensitive_features=s).n_iter_[0]
    def procedure(self, risk, theta, *_): return theta, 3, False
    monkeypatch.setattr(ZafarFalseNegatives, "_procedure", procedure)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = ZafarFalseNegatives().fit(x, y, sensitive_features=s)
    assert model.n_iter_[0] == n + 3 and len(said) == 1


# steering

class Lines:
    "Networks that multiply the second input by a weight each, and note what they are shown."
    def __init__(self, weights):
        self.model, self.seen = torch.nn.Identity(), []
        self.live = weights.clone().requires_grad_()
        self.opt = torch.optim.SGD([self.live], 9.)

    def outputs(self, weights, x):
        self.seen.append(x)
        return x[..., 1] * weights[:, None]

    def follow(self): pass


@pytest.mark.parametrize("metric", ["DI", "EO difference", "DMSE"])
def test_a_step_of_steering_by_hand(metric):
    "Each network its own risk + λ W_2^2 / variance, on rows that it does not leave out."
    g = torch.Generator().manual_seed(0)
    s, y = ((torch.rand(90, generator=g) < share).long() for share in (.7, .5))
    x = torch.stack([torch.arange(90.), torch.randn(90, generator=g) + s], 1)
    out = torch.arange(90)[None] % 3 != torch.arange(3)[:, None]
    stack, w = Lines(torch.tensor([.5, -1., 2.])), torch.tensor([.5, -1., 2.], requires_grad=True)
    run = Run(stack=stack, data=FairDataset(x, y, s), aim=Aim(.8, metric), task=Binary(), y=y, s=s,
              out=out, batch_size=30, generator=g, device="cpu")
    run.train(2., .1)
    counts = y == 1 if metric == "EO difference" else y >= 0
    loss = 0.
    for k, shown in enumerate(stack.seen[0]):
        at, z = shown[:, 0].long(), shown[:, 1] * w[k]
        assert not out[k][at].any() and sorted(at[:30].tolist()) == list(range(k, 90, 3))
        groups = at[30:].chunk(2)
        for j, rows in enumerate(groups): assert (s[rows] == j).all() and counts[rows].all()
        f = z.sigmoid()
        loss = loss - torch.where(y[at[:30]] == 1, f[:30], 1 - f[:30]).log().mean()
        if metric == "DMSE": f = (f - y[at]) ** 2
        parts = f[30:].chunk(2)
        shares = [(s[counts] == j).float().mean() for j in (0, 1)]
        mean = sum(p * v.mean() for p, v in zip(shares, parts))
        variance = sum(p * ((v - mean) ** 2).mean() for p, v in zip(shares, parts))
        gap = parts[0].sort().values - parts[1].sort().values
        loss = loss + 2 * gap.square().mean() / variance
    wanted = w - .1 * torch.autograd.grad(loss, w)[0]
    torch.testing.assert_close(stack.live.detach(), wanted.detach(), rtol=1e-4, atol=1e-5)


def test_left_out_rows_by_a_loop():
    "Means of the networks that left a row out, and what their noise adds to the spread."
    rng = np.random.default_rng(0)
    s, out = np.arange(60) % 3 == 0, np.arange(60)[None] % 4 != np.arange(4)[:, None]
    truth = rng.normal(size=60) + s
    Z = [truth + rng.normal(size=(4, 60)), .5 * truth + rng.normal(size=(4, 60))]
    run = SimpleNamespace(out=torch.tensor(out), s=torch.tensor(s).long())
    z, narrow = Blend(run, *map(torch.tensor, Z)).at(.3)
    wanted, noise = [], []
    for i in range(60):
        a, b = (v[out[:, i], i] for v in Z) # three of the four
        wanted.append(.7 * a.mean() + .3 * b.mean())
        noise.append(np.var(.7 * a + .3 * b, ddof=1) * (1 / 3 - 1 / 4))
    np.testing.assert_allclose(z, wanted)
    V = sum(np.var(z.numpy()[s == k]) * np.mean(s == k) for k in (False, True))
    assert narrow == pytest.approx(np.sqrt(1 - np.mean(noise) / V)) and narrow < .97


def test_a_look_at_true_positive_rates():
    "Cut where two fifths of all rows lie above; the curves are those of the rows with y = 1."
    rng = np.random.default_rng(0)
    s, y = np.arange(400) % 2, (rng.random(400) < .3).astype(float)
    z = rng.normal(size=400) + y + .5 * s
    run = SimpleNamespace(out=torch.ones(3, 400), s=torch.tensor(s), y=torch.tensor(y),
                          counts=torch.tensor(y == 1), aim=Aim(.1, "EO difference"), task=Binary())
    found = Blend(run, *[torch.tensor(z).expand(3, 400)] * 2).look(.5, share=.4)
    above = z > np.quantile(z, .6)
    among = np.mean([s[y == 1] == k for k in (0, 1)], 1)
    assert among @ found.rates == pytest.approx(above[y == 1].mean(), abs=1e-6)
    assert found.rates == pytest.approx([above[(y == 1) & (s == k)].mean() for k in (0, 1)], abs=.1)
    assert found.acc == pytest.approx(np.mean(above == (y == 1)))


def test_errors_and_cuts_of_left_out_rows():
    "Variances of the logarithms of two error rates; the cut gives the share that was looked at."
    rng = np.random.default_rng(1)
    s, y = np.arange(300) % 3 % 2, (rng.random(300) < .3).astype(float)
    z = rng.normal(size=300) + y
    data = FairDataset(np.c_[z, z], y, s)
    run = SimpleNamespace(out=torch.ones(3, 300), s=data.s, y=data.y, data=data, device="cpu",
                          aim=Aim(.8, "DMSE"), task=Binary())
    blend = Blend(run, *[torch.tensor(z).expand(3, 300)] * 2)
    found = blend.look(0., share=.1)
    wrong = [((z > np.quantile(z, .9)) != y)[s == k] for k in (0, 1)]
    assert found.rates == pytest.approx([w.mean() for w in wrong])
    assert found.var == pytest.approx([(1 - w.mean()) / (len(w) * w.mean()) for w in wrong])
    net = torch.nn.Linear(2, 1)
    net.scores = lambda x: x[:, 0].sigmoid()
    cut = blend.threshold_of(net, found, "rate")
    assert np.mean(1 / (1 + np.exp(-z)) > cut) == pytest.approx(.1)


# pictures, groups and drawn tables

def test_pictures_show_the_numbers():
    "CDFs through the quantiles, arrows at the middles of the ranks, and the threshold."
    ax = plot_quantiles([.1, .2, .6], [.3, .5, .9], names=("women", "men"), threshold=.4)
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert lines["women"] == [[.1, 0], [.2, .5], [.6, 1]]
    assert lines["men"] == [[.3, 0], [.5, .5], [.9, 1]]
    assert ax.lines[-1].get_xdata()[0] == .4
    ax = plot_cdfs([.1, .2, .6, .7, .3, .5, .8, .9], [0] * 4 + [1] * 4, arrows=2)
    ends = [(*note.xyann, *note.xy) for note in ax.texts]
    assert ends == [(.1, .25, .3, .25), (.6, .75, .8, .75)]
    plt.close("all")


def test_the_farthest_of_many_groups_are_named():
    "By W_2, between the first and the third; W_1 is largest between the first two."
    few = np.r_[np.full(90, .15), np.ones(10)]
    f = np.concatenate([np.zeros(100), np.full(100, .3), few, np.full(500, .1)])
    ax = plot_cdfs(f, np.repeat(np.arange(8), 100))
    assert ax.get_legend_handles_labels()[1] == ["group 0", "group 2"]
    plt.close("all")


def test_intersections_have_their_names():
    s = np.array([[a, b] for a in range(2) for b in (5, 6, 7) for _ in range(a + b)])
    codes, labels = crossed_groups(s)
    assert [labels[k] for k in codes] == [tuple(row) for row in s.tolist()]


def test_interval_of_a_ratio_of_attributes():
    "exp(± z se), with a z of one's own."
    a = torch.tensor([[0, 1]] * 6 + [[0, 0]] * 4 + [[1, 1]] * 3 + [[1, 0]] * 9)
    faces = FaceDataset(torch.zeros(22, 3, 2, 2, dtype=torch.uint8),
                        torch.column_stack([a, torch.arange(22) % 2]), ["Young", "Hat", "Happy"],
                        target="Happy")
    row, se = attribute_ratios(faces, z=3.).loc["Hat"], np.sqrt(.4 / 6 + .75 / 3)
    assert row.ratio == pytest.approx(.6 / .25)
    assert (row.low, row.high) == pytest.approx((2.4 * np.exp(-3 * se), 2.4 * np.exp(3 * se)))


@pytest.mark.parametrize("nonlinear, share", [(False, .35), (True, .2)])
def test_drawn_table_by_its_formula(nonlinear, share):
    "In each group, and for small and large logits, as many positives as these say."
    table = synthetic_table(60_000, .3, 1, nonlinear, share)
    x, y, s = (v.double().numpy() for v in table.tensors)
    assert np.mean(s == 0) == pytest.approx(share, abs=.01)
    for k in (0, 1):
        means = .6 * (k - .5) * np.array([1, 1, 0, 0, 0, 0])
        np.testing.assert_allclose(x[s == k].mean(0), means, atol=.035)
    z = x @ [1., .8, .6, -.5, .3, 0.]
    if nonlinear: z = z + 1.2 * x[:, 2] * x[:, 3] + .8 * (np.abs(x[:, 4]) - .8)
    z = 1.3 * z + .35 * (s - .5)
    b = optimize.brentq(lambda b: np.mean(special.expit(z + b)) - .3, -9, 9)
    for at in (s == 0, s == 1, z < -1.5, abs(z) < 1, z > 1.5):
        assert y[at].mean() == pytest.approx(special.expit(z + b)[at].mean(), abs=.012)


# tables

def people(n=400):
    "A table with a number, a word, a sensitive column and a label, of which few are favourable."
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(20, 60, n), "job": rng.choice(["a", "b"], n),
                         "sex": rng.choice(["F", "M"], n), "paid": np.arange(n) % 10 == 0})


def test_splits_of_a_table():
    "As many of each cell as the share says; other seeds, other rows; the same seed, the same."
    table, words = people(), dict(target="paid", favourable=True, sensitive="sex", privileged="M")
    train, test = load_table(table, **words, test=.3, seed=5, stratify=True)
    for y in (0, 1):
        for s in (0, 1):
            whole = ((table.paid == y) & ((table.sex == "M") == s)).sum()
            assert ((test.y == y) & (test.s == s)).sum().item() == round(.3 * whole)
    parts = {seed: load_table(table, **words, seed=seed)[1].x for seed in (0, 1)}
    assert len(parts[0]) == 100 and not torch.equal(parts[0], parts[1])
    assert torch.equal(parts[1], load_table(table, **words, seed=1)[1].x)
    drawn = [set(rows[1].tolist()) for rows in (split(3), split(4), split(3))]
    assert drawn[0] == drawn[2] and len(drawn[0] & drawn[1]) < 60 # 50 of 200 by chance: 12.5


def split(seed):
    "The inputs of two parts, which are row numbers."
    data = FairDataset(np.arange(200.)[:, None], np.arange(200) % 2, np.arange(200) // 2 % 2)
    return [part.x[:, 0] for part in data.split(.25, seed=seed)]


@pytest.mark.parametrize("module, load, fixed", [
    (adult_data, "load_adult", dict(target="income", favourable=">50K")),
    (census, "load_census", dict(target="income", favourable=1)),
    (census, "load_communities", dict(target="crime", favourable="low",
                                      sensitive="Black residents", privileged="fewer"))])
def test_packaged_tables_are_loaded_as_asked_for(module, load, fixed, monkeypatch):
    "Every option arrives."
    names = "table", "target", "favourable", "sensitive", "privileged"
    def load_table(*args, **options): return dict(zip(names, args)) | options
    monkeypatch.setattr(module, "load_table", load_table)
    asked = dict(test=.1, seed=7, stratify=load != "load_census")
    if load != "load_communities": asked |= dict(sensitive="race", privileged="White",
                                                 keep_sensitive=True)
    if load == "load_adult": asked |= dict(encoding="ordinal", drop=["age"])
    found = getattr(module, load)(**asked)
    table = found.pop("table")
    assert found == fixed | asked
    if load == "load_communities": # the 30% with most crime; more than the median of 1,994
        assert (table.crime == "high").mean() == pytest.approx(.3, abs=.01)
        assert .45 < (table["Black residents"] == "more").mean() < .5


def test_usual_inputs_of_adult(monkeypatch):
    "Education once, as a number; neither the sex nor the income; rows with a gap are left out."
    k = np.arange(81)
    columns = {"age": 20. + k % 40, "education": "a", "education-num": 1 + k % 13,
               "sex": np.where(k % 2, "Male", "Female"), "income": np.where(k % 3, "<=50K", ">50K")}
    frame = pd.DataFrame(columns)
    frame.loc[80, "age"] = np.nan
    monkeypatch.setattr(adult_data, "adult_frame", lambda: frame)
    train, test = adult_data.load_adult()
    assert train.names == test.names == ["age", "education-num"]
    assert (len(train), len(test), train.groups) == (60, 20, ("Female", "Male"))


def test_groups_of_digits_are_drawn_once(monkeypatch):
    "The coins of the test part come after those of the training part, from one generator."
    images = torch.zeros(300, 28, 28, dtype=torch.uint8)
    arrays = images, torch.arange(300) % 10, images[:200], torch.arange(200) % 10
    monkeypatch.setattr(mnist, "mnist_arrays", lambda *_: arrays)
    train, test = mnist.mnist_parts.__wrapped__("none", 3)
    coins = torch.Generator().manual_seed(3)
    assert torch.equal(train.s, torch.randint(2, (300,), generator=coins))
    assert torch.equal(test.s, torch.randint(2, (200,), generator=coins))


# rows

def accuracy(f, data): return np.mean((np.asarray(f) > .5) == data.y.numpy())


def test_faces_are_drawn_for_each_part(monkeypatch):
    "No two parts from one seed; each measured with its own scores; the middle of each image."
    seeds = []

    def drawn(n, size, seed):
        seeds.append(seed)
        g = torch.Generator().manual_seed(seed)
        x = torch.arange(size * size, dtype=torch.uint8).view(1, 1, size, size)
        a = torch.randint(2, (n, 2), generator=g)
        return FaceDataset(x.expand(n, 3, size, size), a, ["Attractive", "Young"])
    monkeypatch.setattr(celeba, "synthetic_faces", drawn)
    small = celeba.Faces(size=4, crop=2, drawn=50)
    monkeypatch.setitem(celeba.PRESETS, "tiny", small)
    parts = celeba.face_parts("synthetic", "tiny", 3)
    assert parts[0].x[0, 0].tolist() == [[5, 6], [9, 10]]
    for seed in range(20): celeba.face_parts("synthetic", "tiny", seed)
    assert len(set(seeds[3:])) == 60
    f = {name: np.random.default_rng(k).random(len(part))
         for k, (name, part) in enumerate(zip(("train", "valid", "test"), parts))}
    monkeypatch.setattr(celeba, "kept_scores", lambda *_: f | {"curve": None})
    row = celeba.celeba_run("score", 1., 3, "tiny", source="synthetic")
    for prefix, part in zip(("train_", "valid_", ""), parts):
        wanted = accuracy(f[prefix[:-1] or "test"], part)
        assert row[f"{prefix}Acc"] == pytest.approx(wanted)
    assert [row[k] for k in ("images", "valid_images", "test_images")] == [50, 1000, 3000]


def test_a_row_of_the_frontier_has_two_parts(monkeypatch):
    "A fifth of the training part is held out; both are scored in one call and measured apart."
    jobs = []

    def run(job):
        jobs.append(job)
        return job.test.x[:, 0].sigmoid()
    monkeypatch.setattr(frontier, "find_method", lambda name: Method(run))
    def table(seed): return synthetic_logistic(500, seed).split(.25, seed=seed)
    row = frontier.frontier_run("any", 50, 2., 3, epochs=1, table=table)
    train, test = table(3)
    part = jobs[0].train
    seen = {tuple(x) for x in part.x.tolist()}
    held = train[[tuple(x) not in seen for x in train.x.tolist()]]
    assert [len(d) for d in (part, held, test)] == [300, 75, 125]
    assert row["Acc"] == pytest.approx(accuracy(test.x[:, 0].sigmoid(), test))
    assert row["valid_Acc"] == pytest.approx(accuracy(held.x[:, 0].sigmoid(), held))
    assert (jobs[0].seed, jobs[0].batch, jobs[0].strength) == (3, 50, 2.)
    base = synthetic_logistic(500, 3).y.mean().item()
    assert row["majority"] == pytest.approx(max(base, 1 - base))
    for seed in (3, 4): frontier.frontier_run("any", 50, 2., seed, table=lambda _: (train, test))
    assert torch.equal(jobs[1].train.x, part.x) and not torch.equal(jobs[2].train.x, part.x)


def test_the_strength_in_the_middle_of_those_chosen():
    "On three splits 1, 1 and 4 are the only ones with a DI of .85 there."
    rows = [dict(method="W2", batch=50, seed=seed, reference=None, strength=k, Acc=.8, DI=.9,
                 W2=.1, EO=.1, valid_Acc=.8, valid_DI=.9 if k == wanted else .5)
            for seed, wanted in enumerate((1., 1., 4.)) for k in (1., 4.)]
    line = frontier.chosen_table(rows, 50).loc["W2"]
    assert (line.strength, line.reached) == ("1", "3 of 3")


def test_the_choice_is_made_on_the_held_out_part():
    "Strength 2 is best there among those with a DI of .85 there; elsewhere others would be."
    rows = [dict(method="W2", batch=50, seed=1, reference=None, strength=k, Acc=a, DI=d,
                 valid_Acc=va, valid_DI=vd)
            for k, a, d, va, vd in ((1., .80, .90, .82, .80), (2., .70, .80, .78, .86),
                                    (4., .75, .95, .76, .90))]
    assert frontier.chosen_rows(rows, "W2", 50).strength.tolist() == [2.]


def test_the_demo_measures_other_rows_than_it_trains_on(monkeypatch):
    seeds = []

    def drawn(n, seed):
        seeds.append(seed)
        return synthetic_logistic(200, seed)
    monkeypatch.setattr(demo, "synthetic_logistic", drawn)
    monkeypatch.setattr(demo, "train_steps", lambda *_, **__: None)
    nets, real = [], demo.mlp
    monkeypatch.setattr(demo, "mlp", lambda *args: nets.append(args) or real(*args))
    rows = [demo.demo_run(1., seed=seed) for seed in range(3)]
    assert len(set(seeds)) == 6 and nets == [(8, (32, 32), seed) for seed in range(3)]
    for name in ("Acc", "W2"):
        assert all(row[f"{name} low"] < row[f"{name} high"] for row in rows), name


def test_rows_are_measured_on_draws_of_their_own(monkeypatch):
    "Neither those of the training, nor those of another seed."
    seeds = []

    def drawn(n, *rest):
        seeds.append(rest[-1] if len(rest) == 1 else rest[1]) # the seed comes after the base rate
        return synthetic_logistic(200, seeds[-1])
    monkeypatch.setattr(small_batches, "synthetic_logistic", drawn)
    monkeypatch.setattr(small_batches, "small_steps", lambda *_: None)
    for seed in range(3): small_batches.debiased_run("plain", 16, 0, 5., seed)
    assert len(set(seeds)) == len(seeds) == 6
    monkeypatch.setattr(steering, "synthetic_table", drawn)
    for seed in range(3): steering.steering_data("20%", 100, seed)
    assert len(set(seeds[6:])) == len(seeds[6:]) == 6


def test_who_gains_is_counted_on_the_same_folds(monkeypatch):
    "A method without fold 1 is compared on fold 0; .85 itself is enough; the smallest of groups."
    def row(method, fold, yes, **more):
        return dict(table="race", method=method, fold=fold, n=[10, 10], yes=yes, strength=1.) | more
    best = pd.DataFrame([row("plain", 0, [2, 6]), row("plain", 1, [9, 9]), row("W2", 0, [4, 5])])
    np.testing.assert_allclose(groups.change(best, "W2", "yes"), [.2, -.1])
    assert groups.smallest_ratio([10, 80, 1], [100, 200, 99], 100) == pytest.approx((.25, .3))
    rows = [row("W2", 0, [1, 1], strength=k, valid_Acc=a, valid_yes=[yes, 200], valid_n=[400, 400])
            for k, a, yes in ((1., .8, 170), (2., .7, 190))]
    assert groups.chosen_strengths(pd.DataFrame(rows)).strength.tolist() == [1.]
    data = synthetic_logistic(1000)
    monkeypatch.setattr(groups, "whole_table", lambda table: data)
    parts = groups.parts("race", 2)
    assert [len(part) for part in parts] == pytest.approx([640, 160, 200], abs=4)
    assert len({tuple(x) for part in parts for x in part.x.tolist()}) == 1000


def test_the_first_of_two_rows_of_labels_counts():
    found = read_labels("2\nSmiling Young\n000007.jpg 1 -1\n000007.jpg -1 1", "labels.txt")
    assert found.index.tolist() == [7] and found.iloc[0].tolist() == [1, -1]


def test_shares_of_faces_in_both_groups(monkeypatch):
    "Glasses among the old over those among the young; pale skin the other way round."
    a = torch.zeros(20, 4, dtype=torch.uint8)
    a[:, 0], a[5:, 1], a[:2, 2], a[5:8, 2] = torch.arange(20) % 2, 1, 1, 1
    a[:1, 3], a[5:17, 3] = 1, 1
    names = ["Attractive", "Young", "Eyeglasses", "Pale_Skin"]
    data = FaceDataset(torch.zeros(20, 3, 4, 4, dtype=torch.uint8), a, names)
    monkeypatch.setattr(celeba_attributes, "load_celeba", lambda *_, **__: data)
    for what, wanted in (("young to old persons", 3.), ("eyeglasses, old to young", .4 / .2),
                         ("pale skin, young to old", .8 / .2)):
        assert celeba_attributes.ratio_run(what)["here"] == pytest.approx(wanted)


def test_networks_without_a_penalty_are_trained_once(monkeypatch):
    "Whatever would have been compared: λ = 0 is kept under one name."
    asked = []
    monkeypatch.setattr(celeba, "Memory", lambda *_, **__: SimpleNamespace(
        cache=lambda f, ignore: lambda *setting: asked.append(setting[1:3])))
    data = FaceDataset(torch.zeros(4, 3, 2, 2, dtype=torch.uint8), [[0, 0], [0, 1], [1, 0], [1, 1]],
                       ["Attractive", "Young"])
    for lam in (0., 2.): celeba.kept_scores((data, data, data), "error", lam, 3, "tiny", "bce")
    assert asked == [("score", 0.), ("error", 2.)]


def test_another_preset_of_the_same_name_is_another_call(monkeypatch):
    "Scores that are kept belong to what a preset holds, and to the images."
    keys = []
    monkeypatch.setattr(celeba, "Memory", lambda *_, **__: SimpleNamespace(
        cache=lambda f, ignore: lambda *setting: keys.append(setting[-1])))
    labels, names = [[0, 0], [0, 1], [1, 0], [1, 1]], ["Attractive", "Young"]
    dark, bright = (FaceDataset(torch.full((4, 3, 2, 2), v, dtype=torch.uint8), labels, names)
                    for v in (0, 9))
    for part in (dark, bright): celeba.kept_scores((dark, part, dark), "score", 1., 3, "tiny")
    monkeypatch.setitem(celeba.PRESETS, "tiny", replace(celeba.PRESETS["tiny"], epochs=7))
    celeba.kept_scores((dark, dark, dark), "score", 1., 3, "tiny")
    assert len(set(keys)) == 3


def test_raised_and_lowered_by_the_penalty(monkeypatch):
    "The score with the penalty less that without it."
    data = FaceDataset(torch.zeros(4, 3, 2, 2, dtype=torch.uint8), [[0, 0], [0, 1], [1, 0], [1, 1]],
                       ["Attractive", "Young"])
    monkeypatch.setattr(celeba_attributes, "face_parts", lambda *_: (data, data, data))
    fair, plain = np.array([.9, .5, .5, .1]), np.full(4, .5)
    monkeypatch.setattr(celeba_attributes, "kept_scores",
                        lambda parts, on, lam, *_: {"test": fair if lam else plain})
    row = celeba_attributes.attributes_run(2., 0, k=1)
    assert (row["raised_mean"], row["lowered_mean"]) == pytest.approx((.4, -.4))
    assert row["attributes"] == {"Attractive": [0., 1., .5], "Young": [0., 1., .5]}
    asked = []
    monkeypatch.setattr(groups, "penalised", lambda job, penalty: asked.append(penalty.debias))
    for name in ("W2", "W2, biased", "W2, batch only"): groups.METHODS[name].run(None)
    assert asked == [True, False, False]


def test_what_methods_are_given(monkeypatch):
    "λ is full from the middle epoch on; of the classifier, a ring of a quarter of the rows."
    asked = []
    monkeypatch.setattr(methods, "penalised", lambda job, penalty, lam, **_: asked.append(lam))
    data = synthetic_logistic(100)
    methods.own_scores(peers.Job(data, data, 0, 50, 3., 10), "growing")
    assert (asked[0].start, asked[0].stop, asked[0].each) == (0, 6, "epoch")
    monkeypatch.setattr(mlp, "fit_network", lambda *_, penalty, **__: asked.append(penalty))
    x, y, s = (v.numpy() for v in data.tensors)
    for kept in (4000, 7): mlp.FairMLPClassifier(reference=kept).fit(x, y, s)
    assert [penalty.ring.size for penalty in asked[1:]] == [25, 7]


def test_tables_of_steering_and_curves_of_the_frontier():
    "Within .05 on either side; rows with another reference are no points of a curve."
    frame = pd.DataFrame(dict(method="steer", n=10, target=.85, Acc=.8, DI=[.82, .91, .79, .86],
                              positives=[1., 1.22, 1., 0.]))
    found = steering.steering_table(frame).iloc[0]
    assert (found.within, found.above, found.fifth, found.collapsed) == (.5, .75, .5, .25)
    rows = [dict(method=m, batch=50, reference=r, strength=k, DI=.5, valid_DI=.5)
            for m, r, k in (("plain", None, 0.), ("W2", None, 8.), ("W2", 500, 8.))]
    assert hypervolume.frontier_rows(rows, "W2", 50).point.tolist() == ["plain 0.0", "W2 8.0"]
    kinds = "ALM", "fairret", "reduction", "OxonFair"
    rows += [dict(rows[1], method=name) for name in kinds]
    found = {name: len(hypervolume.frontier_rows(rows, name, 50)) for name in kinds}
    assert found == {"ALM": 2, "fairret": 2, "reduction": 1, "OxonFair": 1} # with the plain network
    assert [release(v) for v in ("0.1.2", "0.2", "1.10.3")] == ["0.1", "0.2", "1.10"]


def test_copies_side_by_side_learn_as_alone():
    "Each copy has its whole risk beside its penalty; of a rare group only a share is left."
    data = [v[:300] for v in synthetic_logistic(300).tensors]
    ends = []
    for copies in (1, 3):
        torch.manual_seed(0)
        weights = references.stacked(networks.mlp(8, (4,), 0), copies)
        terms = [WassersteinPenalty(reference=0) for _ in range(copies)]
        references.train_side_by_side(weights, terms, data, 5., 50, .05, steps=20)
        ends.append(torch.cat([w[0].detach().flatten() for w in weights]))
    torch.testing.assert_close(*ends, rtol=1e-3, atol=1e-4)
    s, rare = synthetic_logistic(20_000, 1).s, references.rare_part(1, .1)[2]
    assert (rare == 1).sum() == (s == 1).sum()
    assert (rare == 0).sum() / (s == 0).sum() == pytest.approx(.1, abs=.02)


def test_the_papers_settings():
    "Section 4.1, the controller of Appendix A, and Table 2, as printed."
    paper = adult.PRESETS["paper"]
    assert (paper["batch_size"], paper["epochs"]) == (50, 100)
    assert adult.TARGETS["paper"] == .85
    assert adult.PRESETS["quick"] == dict(batch_size=512, epochs=30, average=.98)
    targets = {name: target for name, (_, target) in adult.LINEAR.items()}
    assert targets == {"LR": 0., "ZFN": 0., "ZFA": .90, "LRrW": .95}
    assert adult.RULES["paper"] == dict(up=1.1, slack=float("inf"))
    images, faces = digits.PRESETS["paper"], celeba.PRESETS["paper"]
    assert paper["task"].loss == images["task"].loss == "mse"
    assert (images["batch_size"], images["epochs"]) == (200, 50)
    assert {setting["seed"] for setting in digits.mnist_grid()} == set(range(9)) # classifiers
    assert signature(digits.coarse_scores).parameters["epochs"].default == 2 # before ST
    assert (faces.batch_size, faces.reference, faces.size) == (2000, 8000, 64)
    assert [list(v.values()) for v in digits.TABLE_2.values()] == [
        [.87, 1., 1., .86, .92, .96, .83, .97, .96, .97],
        [.98, .94, .96, .96, .93, .95, .91, .95, .93, .97]]


def test_linear_models_are_chosen_on_a_fifth_and_fitted_on_all(monkeypatch):
    train, test = synthetic_logistic(600, 0).split(.25, seed=0)
    sizes = []

    def fit_linear(model, data):
        def seen(x): sizes.append((model.C, len(data), len(x)))
        def predict(x):
            seen(x)
            return x[:, 0] > 0
        def proba(x):
            seen(x)
            return np.column_stack([x[:, 0], x[:, 1]])
        return SimpleNamespace(predict=predict, predict_proba=proba)
    monkeypatch.setattr(adult, "fit_linear", fit_linear)
    models = [SimpleNamespace(C=1.), SimpleNamespace(C=2.)]
    monkeypatch.setitem(adult.LINEAR, "LR", (models, 1.1))
    scores, chosen = adult.linear_scores("LR", train, test, 0)
    assert chosen == 2. and sizes == [(1., 360, 90), (2., 450, 450), (2., 450, 150)]
    assert np.array_equal(scores[1], test.x[:, 1])


def test_a_row_of_digits_measures_both_parts(monkeypatch):
    "And λ = 0 has no gradient: its networks stand in one line."
    g = torch.Generator().manual_seed(0)
    parts = [mnist.DigitDataset(torch.randn(n, 1, 28, 28, generator=g), torch.arange(n) % 2,
                                torch.randint(10, (n,), generator=g)) for n in (120, 80)]
    class First(torch.nn.Module):
        def forward(self, x): return x[:, 0, 0, 0]
    monkeypatch.setattr(digits, "load_mnist", lambda *_, **__: parts)
    asked, seeds = [], []

    def train(net, part, preset, **options):
        assert options["penalty"].ring.size == 2000
        asked.append((len(part), preset, options["lam"], options["seed"], options["penalty"].grad))
        return [{"loss": .7}, {"loss": .5}]
    monkeypatch.setattr(digits, "digit_cnn", lambda seed: seeds.append(seed) or First())
    monkeypatch.setattr(digits, "train_digits", train)
    row = digits.mnist_run("SR", "paper", 3., 7, "paper")
    assert asked == [(120, "paper", 3., 7, "paper")] and seeds == [7] and row["loss"] == .5
    for prefix, part in zip(("train_", ""), parts):
        assert row[f"{prefix}Acc"] == pytest.approx(accuracy(part.x[:, 0, 0, 0].sigmoid(), part))
    names = ["Acc", "DI", "MSE", "GP0", "GP1", "TP0", "TN0", "TP1", "TN1"]
    frame = pd.DataFrame([dict(protocol="SR", grad=kind, lam=lam) | dict.fromkeys(names, .5)
                          for kind, lam in (("exact", 0.), ("paper", 0.), ("paper", 1.))])
    assert digits.mnist_table(frame).classifiers.to_dict() == {("SR", "-", 0.): "2",
                                                               ("SR", "printed", 1.): "1"}


def test_peers_by_number(monkeypatch):
    "In the batch alone, among those with the label that is asked for, at the strength of the job."
    f, s = torch.tensor([.1, .2, .5, .9, .3, .8]), torch.tensor([0, 0, 0, 1, 1, 1])
    y, a, b = torch.tensor([1, 0, 1, 1, 1, 0]), [.1, .5], [.9, .3]
    found = peers.BatchPenalty(peers.mean_difference, given=1)(f, s, y)
    assert found.item() == pytest.approx((.3 - .6) ** 2)
    def kernel(u, v): return np.mean([np.exp(-(p - q) ** 2 / .02) for p in u for q in v])
    found = peers.BatchPenalty(peers.mmd, 1)(f, s, y)
    assert found.item() == pytest.approx(kernel(a, a) + kernel(b, b) - 2 * kernel(a, b), rel=1e-5)
    assert peers.BatchPenalty(peers.mean_difference)(f, s).item() == pytest.approx(.4 ** 2)
    asked = []
    monkeypatch.setattr(peers, "fit", lambda net, train, **options: asked.append(options))
    data = synthetic_logistic(100)
    job = peers.Job(data, data, seed=3, batch=64, strength=7., epochs=5)
    for lam in (None, 2.): peers.penalised(job, None, lam)
    names = "lam", "batch_size", "epochs", "seed"
    assert [tuple(o[k] for k in names) for o in asked] == [(7., 64, 5, 3), (2., 64, 5, 3)]


def test_a_row_of_one_lambda(monkeypatch):
    "What is trained with, on which rows, and R + λ W_2^2 of others; the network stays as it is."
    asked, seeds = [], []

    def drawn(n, seed):
        seeds.append(seed)
        return synthetic_logistic(300, seed)
    def train(net, data, lam, batch, reference, ring, **_): asked.append((lam, ring))
    monkeypatch.setattr(lambda_transfer, "synthetic_logistic", drawn)
    monkeypatch.setattr(lambda_transfer, "train_steps", train)
    rows = [lambda_transfer.transfer_run(kind, 50, 150, 2, lam=8.)
            for kind in ("explicit", "ring", "merged", "plain")]
    assert asked == [(8., False), (8., True), (2., False), (0., False)] and set(seeds) == {4, 5}
    x, y, s = synthetic_logistic(300, 5).tensors
    with torch.no_grad(): f = networks.mlp(8, (32, 32), 2)(x).sigmoid().double().numpy()
    risk = -np.log(np.where(y == 1, f, 1 - f)).mean()
    a, b = np.sort(f[s == 0]), np.sort(f[s == 1])
    W = np.mean((np.repeat(a, len(b)) - np.repeat(b, len(a))) ** 2)
    for row in rows: assert row["objective"] == pytest.approx(risk + 8 * W, rel=1e-5)


@pytest.mark.parametrize("layers, columns, lam, size", [
    ([], (8,), 1., 120), ([], (8,), 0., None), ([torch.nn.Dropout(.1)], (8,), 1., None),
    ([torch.nn.BatchNorm1d(8)], (8,), 1., None), ([torch.nn.Linear(8, 2300)], (8,), 1., None),
    ([torch.nn.Flatten()], (2, 2, 2), 1., None), ([torch.nn.Linear(8, 900)], (8,), 1., 120),
    ([], (8,), TargetTuner(), 120)],
    ids=["plain", "no weight", "dropout", "statistics", "large", "images", "medium", "tuner"])
def test_references_of_ones_own_accord(layers, columns, lam, size):
    "Drawn anew for tables and networks of up to 20,000 numbers that score a row in one way only."
    k = torch.arange(120)
    data = FairDataset(torch.zeros(120, *columns), k % 2, k // 2 % 2)
    lam = lam if isinstance(lam, FixedLambda) else FixedLambda(lam)
    found = _usual_penalty(torch.nn.Sequential(*layers), data, lam)
    assert (found.fresh or None) == size and (found.ring is None) == bool(size)


def quantiles(x, pieces):
    "A quantile function as so many equal values."
    return np.repeat(np.sort(x), pieces // len(x))


def test_four_ways_to_subtract_a_bias():
    "Values by sorting, slopes by differences; a reference makes the slopes of a group steeper."
    rng = np.random.default_rng(0)
    f, s = torch.tensor(rng.random(20)), torch.arange(20) % 5 // 2 % 2
    a, b = (f.numpy()[s == k] for k in (0, 1))
    W = np.mean((quantiles(a, 120) - quantiles(b, 120)) ** 2) # of twelve and eight
    bias = sum(2 * np.var(v, ddof=1) / len(v) for v in (a, b))
    for kind, part in (("plain", 0.), ("means", .5), ("flat", 1.)):
        found = small_batches.debiased(kind, f, s, None, rng)
        assert found.item() == pytest.approx(W - part * bias), kind

    def halves(f): # of the same lots
        lots = np.random.default_rng(1)
        drawn = [lots.permutation(np.flatnonzero(s == k)) for k in (0, 1)]
        (p, q), (p_, q_) = ([np.sort(f[z[h::2]]) for z in drawn] for h in (0, 1))
        gap, gap_ = (quantiles(u, 120) - quantiles(v, 120) for u, v in ((p, q), (p_, q_)))
        return np.mean(gap * gap_)
    free = f.clone().requires_grad_()
    found = small_batches.debiased("halves", free, s, None, np.random.default_rng(1))
    assert found.item() == pytest.approx(halves(f.numpy()))
    found.backward()
    wanted = [(halves(f.numpy() + e) - halves(f.numpy() - e)) / 2e-6 for e in 1e-6 * np.eye(20)]
    np.testing.assert_allclose(free.grad, wanted, rtol=1e-5, atol=1e-8)
    batch = f[:10].clone().requires_grad_()
    small_batches.debiased("halves", batch, s[:10], (f[10:], s[10:]),
                           np.random.default_rng(1)).backward()
    times = [(s == k).sum() / (s[:10] == k).sum() for k in s[:10]]
    np.testing.assert_allclose(batch.grad, np.array(times) * wanted[:10], rtol=1e-5, atol=1e-8)
    ring = small_batches.kept((f[:4], s[:4]), f[4:9], s[4:9], 6)
    assert torch.equal(ring[0], f[3:9]) and torch.equal(ring[1], s[3:9])


def test_faces_are_trained_as_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(celeba, "fit", lambda net, train, **options: asked.append(options))
    monkeypatch.setattr(celeba, "resnet18_logit", lambda seed: torch.nn.Sequential())
    data = synthetic_logistic(400)
    celeba.train_faces(data, "error", 2., 3, "tiny", "mse")
    found = asked[0]
    assert (found["lam"], found["seed"], found["task"].loss) == (2., 3, "mse")
    assert found["penalty"].on == "error" and found["penalty"].ring.size == 100
    many, mirror = torch.arange(12.).view(1, 1, 3, 4).expand(60, 1, 3, 4), celeba.MirrorHalf()
    assert torch.equal(mirror.eval()(many), many)
    torch.manual_seed(0)
    seen = mirror.train()(many)[:, 0, 0].tolist()
    assert 15 < seen.count([0., 1., 2., 3.]) == 60 - seen.count([3., 2., 1., 0.]) < 45


def test_rates_and_weights_of_faces_by_step(monkeypatch):
    "A rise for three tenths of the steps from a 25th of the peak, then a fall to nothing."
    opt = celeba.one_cycle(.2, 19)([torch.nn.Parameter(torch.zeros(1))])
    found = []
    for _ in range(19):
        found.append(opt.param_groups[0]["lr"])
        opt.step()

    def between(a, b, share): return b + (a - b) * (1 + np.cos(np.pi * share)) / 2
    wanted = [between(.008, .2, k / 5) if k < 5 else between(.2, 8e-7, (k - 5) / 14)
              for k in range(19)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    asked = []
    monkeypatch.setattr(celeba, "one_cycle", lambda peak, steps: asked.append((peak, steps)))
    monkeypatch.setattr(celeba, "fit", lambda *_, **__: None)
    monkeypatch.setattr(celeba, "resnet18_logit", lambda seed: torch.nn.Sequential())
    celeba.train_faces(synthetic_logistic(420), "score", 2., 3, "tiny")
    assert asked == [(2e-3, 18)] # nine batches of at most fifty, twice
    ramp = celeba.Faces(ramp=(.25, .6)).weight(2., 100)
    assert (ramp.full, ramp.start, ramp.stop, ramp.each) == (2., 25, 60, "step")


def sleepy(seed: int) -> dict:
    "A run that takes its time."
    time.sleep(.02)
    return {"value": float(seed)}


def test_rows_of_another_version_and_durations_in_seconds(tmp_path):
    exp = Experiment("sleepy", "Sleepy", run=sleepy, grid=list, table=lambda f: f, legend="")
    start = time.perf_counter()
    frame = run_rows(exp, [dict(seed=1)], tmp_path)
    assert .02 <= frame.duration[0] <= time.perf_counter() - start
    assert len(rows_of(exp, tmp_path)) == 1 and not len(rows_of(replace(exp, version=2), tmp_path))


def test_networks_of_table_1_see_their_part_only(monkeypatch):
    "Trained on four fifths of the training part, steered by the other fifth, measured on the test."
    calls, first, real = [], [], adult.fit

    def load(seed=0): return synthetic_logistic(600, seed).split(.25, seed=seed)

    def fit(net, part, **options):
        first.append([v.detach().clone() for v in net.parameters()])
        calls.append((net, part, options))
        return real(net, part, **options)
    monkeypatch.setattr(adult, "load_adult", load)
    monkeypatch.setattr(adult, "fit", fit)
    for name, epochs in (("tiny", 3), ("quick", 1)):
        monkeypatch.setitem(adult.PRESETS, name, dict(batch_size=90, epochs=epochs))
    with pytest.warns(UserWarning, match="After 3 epochs"): row = adult.adult_run("NNrW", 5, "tiny")
    train, test = load(5)
    net, part, options = calls[0]
    torch.manual_seed(5)
    wanted = [v for a in (8, 64, 64) for v in torch.nn.Linear(a, 64).parameters()]
    assert [v.shape for v in first[0]] == [*(v.shape for v in wanted), (1, 64), (1,)]
    for v, w in zip(first[0], wanted): torch.testing.assert_close(v, w.detach())
    rows = [{tuple(x) for x in d.x.tolist()} for d in (part, options["valid"], test)]
    assert [len(r) for r in rows] == [360, 90, 150] and len(set.union(*rows)) == 600
    assert rows[0] | rows[1] == {tuple(x) for x in train.x.tolist()}
    tuner = options["lam"]
    assert (tuner.target, tuner.acc, tuner.start, tuner.warm_up) == (.88, .75, 1., 2)
    assert (tuner.up, tuner.slack, options["batch_size"]) == (1.2, .05, 90)
    def rates(d):
        with torch.no_grad(): g = net(d.x) > 0
        return g, [g[d.s == k].double().mean().item() for k in (0, 1)]
    g, r = rates(test)
    assert row["Acc"] == pytest.approx((g == test.y).double().mean().item())
    assert row["DI"] == pytest.approx(min(r) / max(r))
    r = rates(options["valid"])[1]
    assert row["valid_DI"] == pytest.approx(min(r) / max(r))
    adult.sweep_run("paper", 2., 6)
    _, part, options = calls[1]
    assert options["lam"] == 2. and len(part) == 360 and options["seed"] == 6
    assert options["penalty"].grad == "paper" and options["penalty"].ring.size == 4000
    assert calls[0][2]["penalty"].ring.size == 4000
    assert (calls[0][2]["epochs"], options["epochs"]) == (3, 1) # as asked for, and quick
