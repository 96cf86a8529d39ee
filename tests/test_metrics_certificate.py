"""Bounds that hold at any sample size: against SciPy, by enumeration and in repetitions."""
import math

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.metrics.certificate import certify, certify_in_order, distance_room, pair_bound
from fairw2_nb.metrics.certificate import rate_high, rate_low
from fairw2_nb.metrics.intervals import log_ratio_se
from fairw2_nb.metrics.report import fairness_report, threshold_for_rate
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

sizes = st.integers(1, 300)


@st.composite
def counts(draw):
    "x of n in two groups."
    n_a, n_b = draw(sizes), draw(sizes)
    return draw(st.integers(0, n_a)), n_a, draw(st.integers(0, n_b)), n_b


def people(x_a, n_a, x_b, n_b):
    "Scores 0 and 1 and groups with these counts."
    ones = np.concatenate([np.arange(n_a) < x_a, np.arange(n_b) < x_b])
    return ones.astype(float), np.repeat(["a", "b"], [n_a, n_b])


@given(counts(), st.floats(.001, .4))
def test_one_rate_is_scipys(c, error):
    x, n, _, _ = c
    theirs = binomtest(x, n).proportion_ci(1 - 2 * error, method="exact")
    found = rate_low(x, n, error), rate_high(x, n, error)
    np.testing.assert_allclose(found, theirs, rtol=1e-7, atol=1e-12)


@given(counts(), st.floats(.05, .99))
def test_bounds_are_on_their_side(c, target):
    "A bound is worse than what was measured, and worse still at a higher confidence."
    x_a, n_a, x_b, n_b = c
    ratio, gap = pair_bound(*c, .05, target), pair_bound(*c, .05, target, True)
    assert gap >= x_b / n_b - x_a / n_a and -1 <= gap <= 1 and ratio >= 0
    if x_b:
        assert ratio <= x_a / n_a / (x_b / n_b)
    assert pair_bound(*c, .01, target) <= ratio + 1e-12
    assert pair_bound(*c, .01, target, True) >= gap - 1e-12


@given(counts())
def test_one_at_a_time_is_all_at_once(c):
    x_a, n_a, x_b, n_b = c
    more = pair_bound([x_a, 3], [n_a, 9], [x_b, 50], [n_b, 99], .05, .8)
    np.testing.assert_array_equal(more[0], pair_bound(*c, .05, .8))


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("n_a, n_b, target", [(9, 9, .8), (25, 8, .5), (6, 30, .95), (20, 20, .1)])
def test_error_by_enumeration(n_a, n_b, target, gap):
    "Of all outcomes, those with a wrong bound have a probability of at most the error."
    x_a, x_b = np.arange(n_a + 1), np.arange(n_b + 1)
    for error in (.05, .2):
        bounds = pair_bound(x_a[:, None], n_a, x_b[None], n_b, error, target, gap)
        for p_a in np.linspace(.03, .97, 12):
            for p_b in np.linspace(.01, .99, 12):
                chance = np.outer(binom.pmf(x_a, n_a, p_a), binom.pmf(x_b, n_b, p_b))
                wrong = bounds < p_b - p_a if gap else bounds > p_a / p_b
                assert chance[wrong].sum() <= error


@pytest.mark.parametrize("p_a, p_b, n_a, n_b", [
    (.08, .1, 5000, 5000), (.2, .25, 2000, 20_000), (.64, .8, 700, 900), (.25, .2, 3000, 3000)])
def test_wrong_in_at_most_five_percent(p_a, p_b, n_a, n_b):
    "2,000 repetitions of laws other than those of the page."
    rng = np.random.default_rng(5)
    x_a, x_b = rng.binomial(n_a, p_a, 2000), rng.binomial(n_b, p_b, 2000)
    both = pair_bound(x_a, n_a, x_b, n_b, .05, .8), pair_bound(x_b, n_b, x_a, n_a, .05, .8)
    share = (np.min(both, 0) > min(p_a / p_b, p_b / p_a)).mean()
    assert .005 < share <= .05 # a bound that is never wrong would be useless


def test_large_samples_come_near_the_textbook():
    large = [(48_000, 200_000, 60_000, 210_000), (900, 20_000, 100_000, 2_000_000)]
    for x_a, n_a, x_b, n_b in large:
        measured = x_a / n_a / (x_b / n_b)
        se = log_ratio_se(x_a / n_a, n_a, x_b / n_b, n_b)
        asked = np.log(measured / pair_bound(x_a, n_a, x_b, n_b, .05, .8)) / (1.645 * se)
        assert 1 < asked ** 2 < 1.25 # as many times the observations


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.booleans()),
                min_size=12, max_size=60), st.sampled_from([.3, .5, .7]))
def test_values_are_those_of_the_report(rows, threshold):
    f, s, y = (np.array(column) for column in zip(*rows))
    f, s = np.append(f / 20, [.1] * 6), np.append(s, list("abcabc"))
    y = np.append(y, [1, 1, 1, 0, 0, 0])
    r = fairness_report(y, f, s, threshold)
    for metric in ("DI", "DMSE", "DP difference", "EO difference", "EOdds difference", "W1", "W2"):
        claim = {} if metric in ("DI", "DMSE") else dict(at_most=.1)
        c = certify(f, s, y, metric, threshold=threshold, **claim)
        np.testing.assert_allclose(c.value, r[metric], rtol=1e-9, atol=1e-12)
        if not math.isnan(c.value):
            assert c.bound <= c.value if not claim else c.bound >= c.value
        assert bool(c) == c.certified and repr(c) == c.sentence


def test_labels_and_containers():
    f, s = people(150, 400, 170, 400)
    expected = certify(f, s).bound
    for labels in (s == "a", (s == "a") * 3, pd.Series(s, dtype="category"), list(s),
                   torch.tensor(s == "a"), pd.Categorical(s)):
        assert certify(torch.tensor(f), labels).bound == expected
    assert list(certify(f, s).n.items()) == [("a", 400), ("b", 400)]


def test_more_groups_by_the_worst_pair():
    f, s = people(300, 1000, 320, 1000)
    f, s = np.append(f, np.arange(500) < 160), np.append(s, ["c"] * 500)
    pairs = [certify(f[s != g], s[s != g]).bound for g in "abc"]
    assert certify(f, s).bound == min(pairs)


@pytest.mark.parametrize("metric, claim", [
    ("DI", {}), ("DP difference", dict(at_most=.08)), ("EO ratio", dict(at_least=.8))])
def test_observations_needed(metric, claim):
    "At the number that is named, the claim is certified in about 80% of repetitions."
    few = certify(*people(108, 400, 180, 600), np.ones(1000), metric, **claim)
    times = few.needed / 1000
    assert not few and 1 < times < 100
    rng, found = np.random.default_rng(0), []
    n_a, n_b = int(400 * times), int(600 * times)
    for _ in range(200):
        f, s = people(rng.binomial(n_a, .27), n_a, rng.binomial(n_b, .30), n_b)
        found.append(certify(f, s, np.ones(len(f)), metric, **claim).certified)
    assert .7 < np.mean(found) < .9


def test_distances():
    rng = np.random.default_rng(0)
    f, s = rng.random(4000), rng.integers(2, size=4000)
    for p, metric in ((1, "W1"), (2, "W2")):
        c = certify(f, s, metric=metric, at_most=.5)
        n, sd = np.bincount(s), [f[s == k].std() for k in (0, 1)]
        room = distance_room(n[0], sd[0], n[1], sd[1], p, .05)
        np.testing.assert_allclose(c.bound ** p, c.value ** p + room, rtol=1e-9)
        assert c.certified and room > np.log(25) / (3 * n.min())
    small = certify([.2, .4, .4], [0, 1, 1], metric="W1", at_most=.5)
    assert small.bound == 1 and not small # one observation: nothing is known
    enough = certify(f[:300], s[:300], metric="W1", at_most=.15)
    assert enough.needed > 300 and "upper bound" in enough.sentence


def test_out_of_reach_is_said():
    below = certify(*people(100, 500, 150, 500))
    assert below.needed is None and "No number of observations" in below.sentence
    nothing = certify(*people(0, 50, 0, 50))
    assert math.isnan(nothing.value) and not nothing and "nothing to compare" in nothing.sentence
    assert certify(*people(0, 50, 20, 50)).bound == 0


def test_in_order_stops_at_the_first_that_fails():
    s = np.repeat(["a", "b"], 4000)
    good, bad = people(1200, 4000, 1210, 4000)[0], people(800, 4000, 1210, 4000)[0]
    chosen, tried = certify_in_order({"x": good, "y": good, "z": bad, "w": good}, s)
    assert chosen == "y" and list(tried) == ["x", "y", "z"] and not tried["z"]
    assert certify_in_order([bad, good], s)[0] is None
    assert certify_in_order([good], s, threshold={0: .3}, at_least=.9)[0] == 0
    with pytest.raises(ValueError, match="one threshold for each"):
        certify_in_order({"x": good}, s, threshold={"y": .3})
    with pytest.raises(ValueError, match="no candidate"):
        certify_in_order([], s)


f, s = people(10, 20, 10, 20)
bad = {
    "level": (dict(level=.05), "confidence"),
    "percent": (dict(level=95), "between 0 and 1"),
    "at_least": (dict(at_least=80), "at_least = 80"),
    "zero": (dict(at_least=0), "every ratio"),
    "text": (dict(at_least="high"), "between 0 and 1"),
    "threshold": (dict(threshold=5), "threshold = 5"),
    "metric": (dict(metric="di"), "expected one of DI"),
    "no claim": (dict(metric="W2"), "at_most=.05"),
    "wrong claim": (dict(at_most=.1), "say at_least"),
    "labels": (dict(metric="DMSE"), "give `y`"),
    "lengths": (dict(metric="DMSE", y=[1]), "lengths differ"),
    "lacking": (dict(metric="EO ratio", y=s == "a"), "group 'b' lacks a label"),
}


@pytest.mark.parametrize("name", bad)
def test_bad_input_is_answered_in_words(name):
    options, words = bad[name]
    with pytest.raises(ValueError, match=words):
        certify(f, s, **options)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.floats(0, 1))
def test_threshold_for_rate(values, rate):
    "No cut between two scores gives a nearer share; equal scores stay together."
    f = np.array(values) / 12
    cut = threshold_for_rate(f, rate)
    shares = [(f > c).mean() for c in (0, *f)]
    found = (f > cut).mean()
    np.testing.assert_allclose(abs(found - rate), min(abs(np.array(shares) - rate)), atol=1e-12)
    assert 0 <= cut <= 1 and found in shares
    for wrong in (-.1, 2, "half", float("nan")):
        with pytest.raises(ValueError, match="share between 0 and 1"):
            threshold_for_rate(f, wrong)


def test_adjacent_floats_are_kept_apart():
    low, high = 1 - np.finfo(float).eps, 1.
    for f in ([low, high], [.3, np.nextafter(.3, 1)], [0., 5e-324]):
        cut = threshold_for_rate(f, .5)
        assert (np.array(f) > cut).tolist() == [False, True]


def test_notes_of_the_report():
    y, s = np.repeat([0, 1], [80, 20]), np.tile([0, 1], 50)
    few = fairness_report(y, np.where(np.arange(100) > 95, .9, .1), s)
    assert len(few.notes) == 1 and "below half the base rate 0.200" in few.notes[0]
    many = fairness_report(y, np.where(np.arange(100) > 30, .9, .1), s)
    assert "above twice" in many.notes[0] and "predicting 0 for everyone" in many.notes[1]
    for r in (few, many):
        assert all(note in repr(r) and note in r._repr_html_() for note in r.notes)
        assert r.to_dict()["notes"] == list(r.notes)
    assert few["positive rate"] == .04 and few.pick("positive rate") == {"positive rate": .04}
    fine = fairness_report(y, np.where(np.arange(100) > 79, .9, .1), s, n_boot=20)
    assert fine.notes == () and fine["positive rate"] == .2
