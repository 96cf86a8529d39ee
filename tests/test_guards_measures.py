"""Metrics, data, steering and rows by number, worked out here by loops and by SciPy.

As in `test_guards.py`, nothing is compared with another part of the package."""
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.mnist import rotated_half, semi_random, separate_treatment
from fairw2_nb.data.synthetic import synthetic_biased, synthetic_logistic
from fairw2_nb.experiments import adult
from fairw2_nb.experiments.adult import PRINTED, adult_table, table_columns
from fairw2_nb.experiments.celeba import Curve, face_metrics
from fairw2_nb.experiments.experiment import Experiment, mean_sd, rows_of, run_rows
from fairw2_nb.experiments.mnist import digit_metrics, find_flipped
from fairw2_nb.experiments.results import append_row, read_rows
from fairw2_nb.metrics import disparities as d
from fairw2_nb.metrics.intervals import bootstrap, log_ratio_se, metric_row, tally
from fairw2_nb.metrics.report import fairness_report, threshold_for_rate
from fairw2_nb.models.logistic import FairLogisticRegression
from fairw2_nb.training.left_out import Aim, binormal_rates, deal_folds
from fairw2_nb.training.stacks import relative_w2, Run
from fairw2_nb.training.steering import Steered
from fairw2_nb.training.tasks import Binary
from fairw2_nb.transport.estimation import w2_interval
from scipy import stats


def draw(n=90, groups=3, seed=0):
    "Labels, scores on tenths (some of them at the threshold), and groups of different sizes."
    rng = np.random.default_rng(seed)
    s = rng.choice(groups, n, p=np.arange(1, groups + 1) / sum(range(groups + 1)))
    y = (rng.random(n) < .3 + .1 * s).astype(int)
    f = np.clip(np.round(.5 * rng.random(n) + .15 * s + .2 * y, 1), 0, 1)
    return y, f, s


def share(of, among):
    "How many of those are such, one by one."
    found = [bool(a) for a, b in zip(of, among) if b]
    return sum(found) / len(found)


def measured(y, f, s, threshold=.5):
    "Every metric by its definition: of the whole, and of each group."
    g, groups = [v > threshold for v in f], sorted(set(s.tolist()))
    right = [a == b for a, b in zip(g, y)]
    def each(of, when=lambda i: True):
        return {k: share(of, [s[i] == k and when(i) for i in range(len(y))]) for k in groups}
    rate, GP = each(g), each(right)
    TP, FP = each(g, lambda i: y[i] == 1), each(g, lambda i: y[i] == 0)
    errors = {k: np.mean([(f[i] - y[i]) ** 2 for i in range(len(y)) if s[i] == k]) for k in groups}
    MSE = {k: 1 - v for k, v in GP.items()}
    def least(v): return min(v.values()) / max(v.values())
    def gap(v): return max(v.values()) - min(v.values())
    def far(p):
        return max(np.mean(np.abs(np.repeat(np.sort(f[s == a]), (s == b).sum())
                                  - np.repeat(np.sort(f[s == b]), (s == a).sum())) ** p)
                   for a, b in itertools.combinations(groups, 2)) ** (1 / p)
    whole = {"Acc": share(right, y >= 0), "positive rate": share(g, y >= 0), "DI": least(rate),
             "DP difference": gap(rate), "EO difference": gap(TP),
             "EOdds difference": max(gap(TP), gap(FP)), "DMSE": least(MSE), "cDMSE": least(errors),
             "W1": far(1), "W2": far(2)}
    by_group = {"positive rate": rate, "TP": TP, "FP": FP, "GP": GP, "MSE": MSE, "cMSE": errors,
                "TN": {k: 1 - v for k, v in FP.items()}, "n": {k: (s == k).sum() for k in groups}}
    return whole, by_group


# metrics

@pytest.mark.parametrize("threshold", [.5, .3])
def test_report(threshold):
    "Predictions are above the threshold, not at it."
    y, f, s = draw()
    report = fairness_report(y, f, s, threshold)
    whole, by_group = measured(y, f, s, threshold)
    for name, value in whole.items(): assert report[name] == pytest.approx(value), name
    for name, values in by_group.items():
        for k, value in values.items(): assert report[name, k] == pytest.approx(value), (name, k)


def test_functions_of_predictions():
    y, f, s = draw(seed=1)
    whole, by_group = measured(y, f, s)
    g = f > .5
    assert d.positive_rates(g, s) == pytest.approx(by_group["positive rate"])
    assert d.disparate_impact(g, s) == pytest.approx(whole["DI"])
    assert d.demographic_parity_difference(g, s) == pytest.approx(whole["DP difference"])
    assert d.true_positive_rates(y, g, s) == pytest.approx(by_group["TP"])
    assert d.true_negative_rates(y, g, s) == pytest.approx(by_group["TN"])
    assert d.group_accuracy(y, g, s) == pytest.approx(by_group["GP"])
    assert d.equal_opportunity_difference(y, g, s) == pytest.approx(whole["EO difference"])
    assert d.equalized_odds_difference(y, g, s) == pytest.approx(whole["EOdds difference"])
    O = {(k, 1): v for k, v in by_group["TP"].items()}
    O |= {(k, 0): v for k, v in by_group["FP"].items()}
    assert d.group_rates(y, g, s) == pytest.approx(O)


def test_equalised_odds_look_at_both_labels():
    "The gap is among the negatives only."
    y, s = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 1, 1, 0, 0, 1, 1])
    g = np.array([0, 0, 1, 1, 1, 0, 1, 0])
    assert d.equalized_odds_difference(y, g, s) == 1
    assert d.equal_opportunity_difference(y, g, s) == 0


def test_functions_of_scores():
    y, f, s = draw(seed=2)
    whole, by_group = measured(y, f, s, .3)
    assert d.group_mse(y, f, s) == pytest.approx(by_group["cMSE"])
    assert d.group_mse(y, f, s, hard=True, threshold=.3) == pytest.approx(by_group["MSE"])
    assert d.disparate_mse(y, f, s) == pytest.approx(whole["cDMSE"])
    assert d.disparate_mse(y, f, s, hard=True, threshold=.3) == pytest.approx(whole["DMSE"])
    for p in (1, 2): assert d.score_distance(f, s, p=p) == pytest.approx(whole[f"W{p}"])


def row_of(report, metric, group=None):
    "Value and ends."
    return next(r for r in report.rows if r.metric == metric and r.group == group)


def test_intervals_are_those_of_resampled_rows():
    "As many rows of each kind as the report draws, every metric counted anew, NumPy's quantiles."
    y, f, s = draw(200, 2)
    report = fairness_report(y, f, s, .4, n_boot=60, ci=.8, seed=5)
    kinds, counts = np.unique(np.column_stack([s, y, f]), axis=0, return_counts=True)
    rows = np.random.default_rng(5).multinomial(200, counts / 200, 60)
    resampled = [np.repeat(kinds, row, axis=0).T for row in rows]
    found = [measured(y.astype(int), f, s.astype(int), .4) for s, y, f in resampled]
    for name in ("DI", "DMSE", "cDMSE", "W1", "EO difference", "Acc"):
        row, wanted = row_of(report, name), [whole[name] for whole, _ in found]
        wanted = np.quantile(wanted, [.1, .9])
        np.testing.assert_allclose([row.low, row.high], wanted, rtol=1e-9, err_msg=name)
    row, wanted = row_of(report, "TP", 1), [groups["TP"][1] for _, groups in found]
    np.testing.assert_allclose([row.low, row.high], np.quantile(wanted, [.1, .9]), rtol=1e-9)


def test_intervals_in_closed_form():
    "Wilson's ends are where a rate is z standard errors from the measured one; SciPy has them."
    y, f, s = draw(200, 2)
    report = fairness_report(y, f, s, .4, ci=.9)
    def wilson(of):
        test = stats.binomtest(int(of.sum()), len(of))
        return [float(v) for v in test.proportion_ci(.9, method="wilson")]
    g = f > .4
    for k in (0, 1):
        for name, of in (("TP", g[(s == k) & (y == 1)]), ("FP", g[(s == k) & (y == 0)]),
                         ("TN", ~g[(s == k) & (y == 0)]), ("GP", (g == y)[s == k]),
                         ("MSE", (g != y)[s == k]), ("positive rate", g[s == k])):
            row = row_of(report, name, k)
            np.testing.assert_allclose([row.low, row.high], wilson(of), rtol=1e-9, err_msg=name)
    for name, of in (("Acc", g == y), ("positive rate", g)):
        row = row_of(report, name)
        np.testing.assert_allclose([row.low, row.high], wilson(of), rtol=1e-9, err_msg=name)
    (a, b), (r, t) = (wilson(g[s == k]) for k in (0, 1)), (g[s == k].mean() for k in (0, 1))
    assert r < t # Newcombe: each end from the far end of one rate and the near end of the other
    row = row_of(report, "DP difference")
    assert row.low == pytest.approx(t - r - np.hypot(t - b[0], a[1] - r))
    assert row.high == pytest.approx(t - r + np.hypot(b[1] - t, r - a[0]))
    for name, v in (("DI", g), ("DMSE", g != y)):
        row, z = row_of(report, name), stats.norm.ppf(.95)
        rates = [v[s == k].mean() for k in (0, 1)]
        ratio = min(rates) / max(rates)
        se = np.sqrt(sum((1 - r) / r / (s == k).sum() for k, r in enumerate(rates)))
        ends = ratio * np.exp(-z * se), min(ratio * np.exp(z * se), 1)
        assert (row.value, row.low, row.high) == pytest.approx((ratio, *ends))


def test_interval_of_equalised_odds_is_that_of_the_larger_gap():
    "Rates of 3/8 and 6/8 among the negatives, of 5/8 twice among the positives."
    y, s = np.repeat([0, 0, 1, 1], 8), np.repeat([0, 1, 0, 1], 8)
    f = np.concatenate([np.arange(8) < k for k in (3, 6, 5, 5)]) * 1.
    row = row_of(fairness_report(y, f, s, ci=.9), "EOdds difference")
    a, b = (stats.binomtest(k, 8).proportion_ci(.9, method="wilson") for k in (3, 6))
    assert row.value == .375
    assert row.low == pytest.approx(max(0, .375 - np.hypot(.75 - b.low, a.high - .375)))
    assert row.high == pytest.approx(.375 + np.hypot(b.high - .75, .375 - a.low))


def test_interval_of_a_ratio_of_nothing():
    "None of 40 and 30 of 40: from 0 to the highest rate of the one over the lowest of the other."
    f, s = np.repeat([0., 1., 0.], [40, 30, 10]), np.repeat([0, 1], 40)
    row = row_of(fairness_report(f > .5, f, s), "DI")
    a, b = (stats.binomtest(k, 40).proportion_ci(method="wilson") for k in (0, 30))
    assert (row.value, row.low) == (0, 0) and row.high == pytest.approx(a.high / b.low)


def test_undefined_resamples_are_counted():
    assert np.isnan(d.lowest_over_highest(np.array([.2, np.nan, .4])))
    row = metric_row("TP", 0, .5, np.array([.5, np.nan, .7, np.nan]), ci=.5)
    assert (row.low, row.high) == pytest.approx((.55, .65))
    assert row.note == "undefined in 2 of 4 resamples"


def test_every_block_of_resamples_is_drawn_anew():
    "Two million counts are held at once; NumPy draws the same rows in one piece."
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=12_000), rng.integers(2, size=12_000)
    cells = tally(y, rng.random(12_000), s, .5)
    block = 2_000_000 // cells.counts.size
    found = bootstrap(cells, block + 2, 3)[0]["positive rate"]
    full = np.flatnonzero(cells.counts)
    drawn = np.random.default_rng(3).multinomial(12_000, cells.counts.ravel()[full] / 12_000,
                                                 block + 2)
    above = np.broadcast_to(np.arange(cells.counts.shape[-1]) >= cells.cut, cells.counts.shape)
    np.testing.assert_allclose(found, drawn @ above.ravel()[full] / 12_000)


def test_groups_far_apart_by_few_scores():
    "One score in a thousand: means of pieces of the ranks hardly see it."
    few, flat = np.r_[np.full(999, .015), 1.], np.ones(1000)
    f, s = np.r_[few, 0 * flat, .03 * flat], np.repeat([0, 1, 2], 1000)
    wanted = np.sqrt(np.mean(few ** 2))
    assert wanted > .034 and d.score_distance(f, s) == pytest.approx(wanted)
    assert fairness_report(f > .5, f, s)["W2"] == pytest.approx(wanted)


def test_groups_far_apart_for_one_exponent():
    "W_1 is largest between the first two groups, W_2 between the first and the third."
    parts = np.zeros(100), np.full(100, .3), np.r_[np.full(90, .15), np.ones(10)]
    f, s = np.concatenate(parts), np.repeat([0, 1, 2], 100)
    report = fairness_report(f > .5, f, s)
    assert report["W1"] == pytest.approx(.3)
    row = row_of(report, "W2")
    assert row.value == pytest.approx(np.sqrt(.9 * .15 ** 2 + .1))
    assert (row.low, row.high) == pytest.approx(w2_interval(parts[0], parts[2])[1:])


def test_resampled_distance_of_three_groups():
    y, f, s = draw(200, 3)
    row = row_of(fairness_report(y, f, s, n_boot=20, ci=.8, seed=5), "W1")
    kinds, counts = np.unique(np.column_stack([s, y, f]), axis=0, return_counts=True)
    rows = np.random.default_rng(5).multinomial(200, counts / 200, 20)
    found = []
    for drawn in rows:
        a = [np.repeat(kinds[kinds[:, 0] == k, 2], drawn[kinds[:, 0] == k]) for k in range(3)]
        pairs = itertools.combinations(a, 2)
        found.append(max(stats.wasserstein_distance(u, v) for u, v in pairs))
    np.testing.assert_allclose([row.low, row.high], np.quantile(found, [.1, .9]), rtol=1e-9)


def test_error_of_a_log_ratio():
    "Against the spread over 200,000 draws."
    rng = np.random.default_rng(0)
    a, b = rng.binomial(400, .2, 200_000) / 400, rng.binomial(900, .5, 200_000) / 900
    assert log_ratio_se(.2, 400, .5, 900) == pytest.approx(np.log(a / b).std(), rel=.02)


@pytest.mark.parametrize("rate", [0, .13, .25, .5, .88, 1])
def test_threshold_for_a_rate(rate):
    "No other threshold comes nearer, and what is accepted lies above it."
    f = draw(60, seed=3)[1]
    tried = [np.mean(f > t) for t in np.r_[0, np.unique(f), np.unique(f) - 1e-9] if t >= 0]
    best = min(abs(v - rate) for v in tried)
    assert abs(np.mean(f > threshold_for_rate(f, rate)) - rate) == best
    assert threshold_for_rate([.2, .8], .25) == pytest.approx(.9) # none or half: none


# data

def test_synthetic_logistic_by_its_formula():
    data = synthetic_logistic(40_000, 1)
    x, y, s = (t.double().numpy() for t in data.tensors)
    assert s.mean() == pytest.approx(2 / 3, abs=.01)
    np.testing.assert_allclose(x[s == 1].mean(0), [.35] * 3 + [0] * 5, atol=.03)
    np.testing.assert_allclose(x[s == 0].mean(0), [-.35] * 3 + [0] * 5, atol=.04)
    z = x @ [1, .8, .6, .5, -.5, .3, 0, 0] - .5
    for low, high in ((-9, -1), (-1, 1), (1, 9)):
        at = (z > low) & (z < high)
        assert y[at].mean() == pytest.approx(np.mean(1 / (1 + np.exp(-z[at]))), abs=.015)


def test_synthetic_biased_by_its_formula():
    data = synthetic_biased(40_000, 1, means=(-.5, .4), share=.7, flip=.2)
    z, y, s = data.x[:, 0], data.y, data.s
    assert s.float().mean().item() == pytest.approx(.7, abs=.01)
    assert z[s == 0].mean().item() == pytest.approx(-.5, abs=.03)
    assert z[s == 1].mean().item() == pytest.approx(.4, abs=.03)
    assert (y != (z > 0)).float().mean().item() == pytest.approx(.2, abs=.01)
    assert torch.equal(data.x[:, 1], 2. * s - 1)


def test_split_has_its_share_in_every_cell():
    data = synthetic_logistic(1000, 0)
    train, test = data.split(.2, seed=3, stratify=True)
    for y, s in itertools.product((0, 1), (0, 1)):
        of, whole = (((part.y == y) & (part.s == s)).sum().item() for part in (test, data))
        assert of == round(.2 * whole)
    assert len(train) == 1000 - len(test)
    assert [len(part) for part in data.split(.25)] == [750, 250]
    rows = {tuple(r) for r in train.x.tolist()} & {tuple(r) for r in test.x.tolist()}
    assert not rows


def digits(n=400):
    "Images of noise with digits and groups."
    g = torch.Generator().manual_seed(0)
    images = torch.randint(256, (n, 28, 28), generator=g, dtype=torch.uint8)
    return images, torch.randint(10, (n,), generator=g), g


def test_mnist_protocols():
    "s = 0 is turned by 180 degrees; SR takes 65% of its sevens, ST 30% of its lowest positives."
    images, digit, g = digits()
    data = rotated_half(images, digit, g)
    for k in range(50):
        x = images[k].numpy() / 255
        if data.s[k] == 0: x = np.rot90(x, 2)
        np.testing.assert_allclose(data.x[k, 0], x, rtol=1e-6)
    assert data.y.tolist() == [float(v >= 5) for v in digit] and .4 < data.s.float().mean() < .6
    sevens = [k for k in range(400) if digit[k] == 7 and data.s[k] == 0]
    found = set(semi_random(data, g).tolist())
    assert found < set(sevens) and len(found) == round(.65 * len(sevens))
    score = torch.rand(400, generator=g)
    at = sorted((score[k].item(), k) for k in range(400) if data.s[k] == 0 and digit[k] >= 5)
    lowest = separate_treatment(data, score)
    assert sorted(lowest.tolist()) == sorted(k for _, k in at[:round(.3 * len(at))])
    changed = data.relabel(lowest)
    assert changed.y[lowest].sum() == 0 and changed.flipped.sum() == len(lowest)


# steering

def test_what_is_missing():
    "log(target b / a), no margin; a gap relative to the mean rate; .03 of room for the curves."
    aim = Aim(.8, "DI", worse=0)
    assert aim.missing((.2, .5)) == pytest.approx(np.log(.8 * .5 / .2))
    assert aim.missing((.5, .2)) == pytest.approx(np.log(.8 * .2 / .5))
    room = 1.96 * np.sqrt(.1 ** 2 + .03 ** 2)
    assert tuple(aim.reached((.2, .5), (.004, .006))) == pytest.approx(
        (.4, .4 * np.exp(-room), .4 * np.exp(room)))
    gap = Aim(.1, "EO difference", worse=1)
    assert gap.missing((.6, .4)) == pytest.approx((.6 - .4 - .1) / .5)
    assert tuple(gap.reached((.6, .4), (.004, .006))) == pytest.approx(
        (.2, .2 - room / 2, .2 + room / 2))


def test_what_is_missing_of_three_groups():
    "The lowest rate and the highest; or pairs one by one, their mean and its variance."
    rates, var = (.3, .2, .5), (.002, .004, .006)
    worst, mean = Aim(.8), Aim(.8, over="mean")
    assert worst.missing(rates) == pytest.approx(np.log(.8 * .5 / .2))
    assert worst.reached(rates, var) == pytest.approx(Aim(.8).reached((.2, .5), var[1:]))
    logs = [np.log(.2 / .3), np.log(.2 / .5), np.log(.3 / .5)]
    assert mean.missing(rates) == pytest.approx(np.log(.8) - np.mean(logs))
    se = np.sqrt((4 * .004 + 4 * .006) / 9) # log .3 comes in with both signs
    room = 1.96 * np.sqrt(se ** 2 + .03 ** 2)
    value = np.exp(np.mean(logs))
    assert tuple(mean.reached(rates, var)) == pytest.approx(
        (value, value * np.exp(-room), value * np.exp(room)))
    gap = Aim(.1, "DP difference", over="mean")
    assert gap.missing(rates) == pytest.approx((.2 - .1) / np.mean([.25, .35, .4]))
    assert gap.reached(rates, var).value == pytest.approx(np.mean([.1, .3, .2]))


def test_penalty_of_a_stack_of_three_groups():
    "Pairs one by one, by sorting; the variance of a mixture with these shares."
    rng = np.random.default_rng(0)
    parts, shares = rng.random((3, 2, 17)), (.5, .3, .2)
    Q = np.sort(parts, -1)
    W = np.mean([((Q[a] - Q[b]) ** 2).mean(-1) for a, b in ((0, 1), (0, 2), (1, 2))], 0)
    first, second = (np.einsum("g,gkm->k", shares, parts ** k) / 17 for k in (1, 2))
    found = relative_w2([torch.tensor(part) for part in parts], shares)
    np.testing.assert_allclose(found.numpy(), W / (second - first ** 2), rtol=1e-9)


def test_weight_of_more_groups_in_a_stack():
    "(G - 1) times the mean over pairs, by sorting, of rows of group 0, 1 and 2 in turn."
    out = torch.randn(2, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shares = (.5, .3, .2)
    run = SimpleNamespace(task=Binary(), aim=Aim(.8), pools=[0] * 3, shares=shares)
    parts = (1 / (1 + np.exp(-out.numpy()))).reshape(2, 3, 5)
    Q = np.sort(parts, -1)
    W = sum(((Q[:, a] - Q[:, b]) ** 2).mean(-1) for a, b in ((0, 1), (0, 2), (1, 2))) / 3
    first, second = ((parts ** k).mean(-1) @ shares for k in (1, 2))
    found = Run.penalty(run, out, None)
    np.testing.assert_allclose(found, 2 * W / (second - first ** 2), rtol=1e-9)


def test_notes_of_the_report():
    "A positive rate from half the base rate to twice it is not worth a word."
    y, s = np.arange(100) < 20, np.arange(100) % 2
    for positives, words in ((9, "below half"), (10, ""), (35, ""), (40, ""), (41, "above twice")):
        notes = [n for n in fairness_report(y, np.arange(100) < positives, s).notes if "share" in n]
        assert len(notes) == bool(words) and all(words in note for note in notes), positives


@pytest.mark.parametrize("label", [0, 1])
def test_an_accuracy_that_anybody_reaches(label):
    "Of a hundred, 80 have one label: 25 errors are worth a word, 20 are not."
    k = np.arange(100)
    for wrong in (25, 20):
        y, g = k < 20, (k >= 10) & (k < 10 + wrong) # 10 are missed, the others are false alarms
        found = fairness_report(y ^ label, g ^ label, k % 2).notes
        words = f"The accuracy 0.750 is below 0.800, that of predicting {label} for everyone."
        assert [note for note in found if "accuracy 0" in note] == [words] * (wrong == 25)


def test_a_group_of_thirty_is_not_small():
    y, s = np.arange(99) % 2, np.repeat(["a", "b", "c"], [30, 29, 40])
    small = [note for note in fairness_report(y, .2 + .6 * y, s).notes if "fewer" in note]
    assert [note.split(":")[1].split(".")[0] for note in small] == [" b (29)"]


def test_no_distance_of_scores_is_above_one():
    parts = np.r_[np.zeros(9), .5], np.ones(10)
    row = row_of(fairness_report([0] * 10 + [1] * 10, np.concatenate(parts), [0] * 10 + [1] * 10),
                 "W2")
    assert w2_interval(*parts)[2] > 1 == row.high
    assert row.low == pytest.approx(w2_interval(*parts)[1])


def test_weights_of_the_mixture():
    "Constant networks: 1 and 3 without penalty, 10 and 20 with it."
    def constant(c):
        net = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(net.weight)
        torch.nn.init.constant_(net.bias, c)
        return net
    mixed = Steered([constant(c) for c in (1., 3., 10., 20.)], beta=.25)
    assert mixed(torch.zeros(5, 1)).tolist() == pytest.approx([.75 * 2 + .25 * 15] * 5)
    mixed.mix(2.)
    assert mixed(torch.zeros(1, 1)).item() == pytest.approx(-2 + 30)


def test_rates_from_normal_ranks():
    "Two normal groups: the rates above the cut that a share q exceeds, by SciPy's root."
    rng = np.random.default_rng(0)
    s = np.r_[np.zeros(4000, int), np.ones(12_000, int)]
    z = np.r_[rng.normal(-.4, 1, 4000), rng.normal(.2, .9, 12_000)]
    rates, var = binormal_rates(torch.tensor(z), torch.tensor(s), .3)
    cut = np.quantile(z, .7)
    wanted = [stats.norm.sf(cut, -.4, 1), stats.norm.sf(cut, .2, .9)]
    np.testing.assert_allclose(rates, wanted, rtol=.05)
    counted = [np.mean(z[s == k] > cut) for k in (0, 1)]
    np.testing.assert_allclose(rates, counted, rtol=.06)
    plain = np.sqrt(sum((1 - r) / (n * r) for r, n in zip(wanted, (4000, 12_000))))
    assert .6 * plain < np.sqrt(sum(var)) < plain


def test_folds():
    y, s = torch.arange(203) % 2, torch.arange(203) // 2 % 2
    fold = deal_folds(y, s, 5, torch.Generator().manual_seed(0))
    for a, b in itertools.product((0, 1), (0, 1)):
        sizes = torch.bincount(fold[(y == a) & (s == b)], minlength=5)
        assert sizes.max() - sizes.min() <= 1
    other = deal_folds(y, s, 5, torch.Generator().manual_seed(1))
    assert not torch.equal(fold, other)


# experiments and rows

class Fixed(torch.nn.Module):
    "A network whose logit is the first input."
    def forward(self, x): return x.reshape(len(x), -1)[:, 0]


def test_columns_of_table_1():
    "At 1/2, and at the cut that accepts as many of the training part as have y = 1."
    (y, f, s), (ty, tf, ts) = draw(150, 2), draw(100, 2, seed=4)
    tf, ty[::2] = tf / 2, 0 # other scores and fewer positives than in the test part
    train, test = FairDataset(np.zeros((100, 1)), ty, ts), FairDataset(np.zeros((150, 1)), y, s)
    found = table_columns((torch.tensor(tf), torch.tensor(f)), train, test)
    whole, by_group = measured(y, f, s)
    wanted = {"Acc": whole["Acc"], "DI": whole["DI"], "W2": whole["W2"],
              "EO": whole["EO difference"]}
    wanted |= {f"O_{k}{v}": by_group[name][k] for k in (0, 1) for name, v in (("TP", 1), ("FP", 0))}
    cut = min(np.arange(40) / 40 + .01, key=lambda t: abs(np.mean(tf > t) - ty.mean()))
    kept, _ = measured(y, f, s, cut)
    wanted |= {"kept_Acc": kept["Acc"], "kept_DI": kept["DI"], "positives": whole["positive rate"]}
    for name, value in wanted.items(): assert found[name] == pytest.approx(value), name
    at = np.linspace(0, 1, 21)
    for k in (0, 1):
        wanted = np.quantile(f[s == k], at)
        np.testing.assert_allclose(found[f"quantiles_{k}"], wanted, atol=6e-5)


def test_the_first_model_that_is_fair_enough(monkeypatch):
    "From mild to strict; the last one if none is."
    data = synthetic_logistic(400, 0)
    models = [FairLogisticRegression(p=2, lam=lam) for lam in (0., 4., 50.)]
    x, y, s = (v.numpy() for v in data.tensors)
    part, valid = data.split(.2, seed=1)
    px, py, ps = (v.numpy() for v in part.tensors)
    g = [m.fit(px, py, ps).predict(valid.x.numpy()) == 1 for m in models]
    rates = [[v[valid.s.numpy() == k].mean() for k in (0, 1)] for v in g]
    found = [min(r) / max(r) for r in rates]
    assert found[0] < found[1]
    for target, lam in ((0., 0.), ((found[0] + found[1]) / 2, 4.), (1.1, 50.)):
        monkeypatch.setitem(adult.LINEAR, "LR", (models, target))
        assert adult.linear_scores("LR", data, data, 1)[1] == lam


def test_columns_of_table_2():
    "And how many falsified labels stand at the top of the scores of s = 0, y = 0."
    images, digit, g = digits()
    data = rotated_half(images, digit, g)
    z = torch.randn(400, generator=g) + 2. * (digit >= 5) - 1
    data.x[:, 0, 0, 0] = z
    f, y, s = z.sigmoid().double().numpy(), data.y.numpy().astype(int), data.s.numpy()
    whole, by_group = measured(y, f, s)
    found = digit_metrics(Fixed(), data)
    for name in ("Acc", "DI", "W2"): assert found[name] == pytest.approx(whole[name], rel=1e-5)
    for name in ("GP", "TP", "TN"):
        for k in (0, 1): assert found[f"{name}{k}"] == pytest.approx(by_group[name][k])
    assert found["MSE"] == pytest.approx(np.mean((f - y) ** 2), rel=1e-5)
    false = separate_treatment(data, z)
    found = find_flipped(Fixed(), data.relabel(false))
    suspects = sorted((-f[k], k in false) for k in range(400)
                      if s[k] == 0 and (y[k] == 0 or k in false))
    assert found["found_precision"] == np.mean([bad for _, bad in suspects[:len(false)]])
    above = [bad for v, bad in suspects if v < -.5]
    assert found["above_half_precision"] == pytest.approx(np.mean(above))
    assert found["above_half_recall"] == pytest.approx(sum(above) / len(false))


def test_columns_of_figure_4():
    y, f, s = draw(150, 2)
    whole, by_group = measured(y, f, s)
    found = face_metrics(torch.tensor(f), FairDataset(np.zeros((150, 1)), y, s), "test_")
    GP = by_group["GP"]
    wanted = {name: whole[name] for name in ("Acc", "DI", "W2")} | {"GP0": GP[0], "GP1": GP[1]}
    wanted |= {"MSE": np.mean((f - y) ** 2), "ratio": min(GP.values()) / max(GP.values())}
    for name, value in wanted.items(): assert found["test_" + name] == pytest.approx(value), name


def test_points_of_figure_6():
    "Every third step, on the first images of each part."
    parts = [draw(80, 2, seed) for seed in (0, 1)]
    z = [torch.logit(torch.tensor(f).clamp(.01, .99)) for _, f, _ in parts]
    curve = Curve(*(FairDataset(v[:, None], y, s) for v, (y, _, s) in zip(z, parts)), 3, 60)
    for _ in range(7): curve(Fixed())
    assert [point["step"] for point in curve.points] == [3, 6]
    for name, (y, f, s) in zip(("train", "test"), parts):
        whole, by_group = measured(y[:60], f[:60], s[:60])
        found = curve.points[1]
        assert found[f"{name}_DI"] == pytest.approx(whole["DI"], abs=6e-5)
        for k in (0, 1): assert found[f"{name}_GP{k}"] == pytest.approx(by_group["GP"][k], abs=6e-5)


def toss(bias: float, seed: int, throws: int = 10) -> dict:
    "Heads of a coin."
    return {"heads": float(np.mean(np.random.default_rng(seed).random(throws) < bias))}


COINS = Experiment("coins", "Coins", run=toss, grid=list, table=lambda frame: frame, legend="")


def test_rows_come_from_their_settings(tmp_path):
    "In the order asked for; what is there is not run again; files hold one line for each."
    asked = [dict(bias=.3, seed=1), dict(bias=.7, seed=0, throws=20), dict(bias=.3, seed=0)]
    frame = run_rows(COINS, asked[:2], tmp_path)
    frame = run_rows(COINS, asked, tmp_path)
    heads = [np.mean(np.random.default_rng(a["seed"]).random(a.get("throws", 10)) < a["bias"])
             for a in asked]
    assert frame.heads.tolist() == pytest.approx(heads) and frame.throws.tolist() == [10, 20, 10]
    lines = [json.loads(line) for line in (tmp_path / "coins.jsonl").read_text().splitlines()]
    assert [row["heads"] for row in lines] == pytest.approx(heads) and len(lines) == 3
    assert {row["campaign"] for row in lines} == {"main"}
    run_rows(COINS, asked[:1], tmp_path, campaign="fresh")
    assert len(rows_of(COINS, tmp_path)) == 3 and len(rows_of(COINS, tmp_path, "fresh")) == 1
    assert rows_of(COINS, tmp_path, bias=.3).seed.tolist() == [1, 0]


def test_the_first_row_of_a_setting_counts(tmp_path):
    path = tmp_path / "coins.jsonl"
    run_rows(COINS, [dict(bias=.3, seed=1)], tmp_path)
    first = read_rows(path)[0]
    append_row(path, first | {"heads": 99.})
    assert run_rows(COINS, [dict(bias=.3, seed=1)], tmp_path).heads.tolist() == [first["heads"]]


def test_mean_and_spread():
    frame = pd.DataFrame({"m": ["a", "b", "a", "a"], "v": [1., 5., 2., 6.]})
    found = mean_sd(frame, "m", ["v"])
    assert found.loc["a", "v"] == f"3.000 ± {np.sqrt((4 + 1 + 9) / 2):.3f}"
    assert found.loc["b", "v"] == "5.000" and found.runs.tolist() == ["3", "1"]


def test_table_1_stands_beside_the_printed_one():
    frame = pd.DataFrame([dict(method=m, seed=k, **PRINTED.loc[m] + k) for m in ("NN", "ZFA")
                          for k in (0, 2)])
    found = adult_table(frame)
    assert found.loc[("ZFA", "ours"), "DI"] == "1.950 ± 1.414"
    assert found.loc[("ZFA", "paper"), "DI"] == "0.95"
    printed = {"LR": [.84, .47, .18, .05, .71, .80], "NN": [.82, .37, .20, .05, .73, .64],
               "ZFN": [.79, .64, .10, .07, .42, .43], "ZFA": [.66, .95, .39, .42, .81, .83],
               "LRrW": [.65, .94, .40, .44, .85, .86], "NNrW": [.78, .68, .25, .20, .85, .83]}
    names = ["Acc", "DI", "O_10", "O_00", "O_11", "O_01"]
    assert {k: v for k, v in PRINTED[names].T.to_dict("list").items()} == printed
