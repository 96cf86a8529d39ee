"""Properties of the metrics, against fairlearn, scikit-learn and definitions written out."""
import math
import tracemalloc

import fairlearn.metrics as fl
import numpy as np
import ot
import pandas as pd
import pytest
import torch
from fairw2_nb.metrics import disparities as fm
from fairw2_nb.metrics.intervals import bootstrap, cell_distances, cell_tables, summarise, tally
from fairw2_nb.metrics.report import fairness_report
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from sklearn.metrics import accuracy_score, confusion_matrix, mean_squared_error

row = st.tuples(st.integers(0, 1), st.integers(0, 20).map(lambda k: k / 20), st.sampled_from("abc"))
rows = st.lists(row, min_size=2, max_size=60)


@st.composite
def data(draw):
    "Labels, scores, predictions and groups, with at least two groups."
    y, f, s = map(np.array, zip(*draw(rows)))
    assume(len(set(s)) > 1)
    return y, f, (f > .5).astype(int), s


def same(a, b):
    "Equal up to rounding, NaN equal to NaN."
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)


@given(data())
def test_against_fairlearn(d):
    y, f, g, s = d
    theirs = dict(y_true=y, y_pred=g, sensitive_features=s)
    if g.any():
        same(fm.disparate_impact(g, s), fl.demographic_parity_ratio(**theirs))
    same(fm.demographic_parity_difference(g, s), fl.demographic_parity_difference(**theirs))
    if all(set(y[s == k]) == {0, 1} for k in set(s)):
        same(fm.equal_opportunity_difference(y, g, s), fl.equal_opportunity_difference(**theirs))
        same(fm.equalized_odds_difference(y, g, s), fl.equalized_odds_difference(**theirs))


@given(data())
def test_against_scikit_learn(d):
    y, f, g, s = d
    for k in set(s):
        tn, fp, fn, tp = confusion_matrix(y[s == k], g[s == k], labels=[0, 1]).ravel()
        O = fm.group_rates(y, g, s)
        same(O[k, 1], tp / (tp + fn) if tp + fn else np.nan)
        same(O[k, 0], fp / (fp + tn) if fp + tn else np.nan)
        same(fm.true_negative_rates(y, g, s)[k], tn / (fp + tn) if fp + tn else np.nan)
        same(fm.group_accuracy(y, g, s)[k], accuracy_score(y[s == k], g[s == k]))
        same(fm.group_mse(y, f, s)[k], mean_squared_error(y[s == k], f[s == k]))
        same(fm.group_mse(y, f, s, hard=True)[k], 1 - accuracy_score(y[s == k], g[s == k]))


@given(data())
def test_report_agrees_with_the_functions(d):
    y, f, g, s = d
    r = fairness_report(y, f, s)
    same(r["Acc"], (y == g).mean())
    same(r["DI"], fm.disparate_impact(g, s))
    same(r["DP difference"], fm.demographic_parity_difference(g, s))
    same(r["EO difference"], fm.equal_opportunity_difference(y, g, s))
    same(r["EOdds difference"], fm.equalized_odds_difference(y, g, s))
    same(r["DMSE"], fm.disparate_mse(y, f, s, hard=True))
    same(r["cDMSE"], fm.disparate_mse(y, f, s))
    same(r["W1"], fm.score_distance(f, s, p=1))
    same(r["W2"], fm.score_distance(f, s, p=2))
    for row in r.rows:
        assert row.note or not math.isnan(row.value)
        assert not row.note.startswith("undefined") or math.isnan(row.value)
    assert "undefined" not in repr(r) or any(row.note for row in r.rows)


@given(data())
def test_order_of_rows_and_names_of_groups_do_not_matter(d):
    y, f, g, s = d
    order = np.random.default_rng(0).permutation(len(y))
    renamed = [("group", k) for k in s]
    for other in (fairness_report(y[order], f[order], s[order]), fairness_report(y, f, renamed)):
        for r, q in zip(fairness_report(y, f, s).rows, other.rows):
            same(r.value, q.value)


@given(data())
def test_distance_is_scipys(d):
    y, f, g, s = d
    pairs = [(a, b) for a in set(s) for b in set(s) if a < b]
    theirs = [wasserstein_distance(f[s == a], f[s == b]) for a, b in pairs]
    same(fm.score_distance(f, s, p=1), max(theirs))


@given(data())
def test_squared_distance_is_that_of_pot(d):
    y, f, g, s = d
    pairs = [(a, b) for a in set(s) for b in set(s) if a < b]
    theirs = [ot.wasserstein_1d(f[s == a], f[s == b], p=2) for a, b in pairs]
    np.testing.assert_allclose(fm.score_distance(f, s) ** 2, max(theirs), rtol=1e-10, atol=1e-14)


def test_containers_and_labels():
    y, f, s = [1, 0, 1, 0], [.9, .2, .4, .6], [0, 0, 1, 1]
    expected = fairness_report(y, f, s).to_frame().value
    containers = (
        np.array, pd.Series, tuple, torch.tensor,
        lambda v: torch.tensor(v)[:, None],
        lambda v: pd.Series(v, index=[9, 8, 7, 6]),
    )
    for wrap in containers: # tensors are single precision
        found = fairness_report(wrap(y), wrap(f), wrap(s)).to_frame().value
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    letters = ["f", "f", "m", "m"]
    accepted = (
        letters, [True, True, False, False], [.5, .5, 1.5, 1.5], [1, 1, "other", "other"],
        [("x", 1), ("x", 1), ("y", 2), ("y", 2)], pd.Categorical(letters),
        pd.Series(letters, dtype="category"), pd.Series(letters, dtype="string"),
        np.array(letters), np.array(letters, dtype=object),
    )
    for labels in accepted:
        same(fm.disparate_impact([1, 0, 1, 1], labels), .5)
    positive = torch.tensor([True, False, True, True])
    assert fm.disparate_impact(positive, torch.tensor([0, 0, 1, 1])) == .5
    same(fairness_report(y, torch.tensor(f, dtype=torch.bfloat16), s)["DI"], 1.)


def test_inside_metric_frame():
    rng = np.random.default_rng(0)
    y, f, s = rng.integers(2, size=200), rng.random(200), rng.integers(2, size=200)
    region, g = rng.choice(["n", "s"], 200), (f > .5).astype(int)
    names = ("disparate_impact", "demographic_parity_difference", "equal_opportunity_difference",
             "equalized_odds_difference", "disparate_mse", "score_distance")
    metrics = {name: getattr(fm, name) for name in names}
    frame = fl.MetricFrame(metrics=metrics, y_true=y, y_pred=g, sensitive_features=region,
                           sample_params={k: {"s": s} for k in metrics})
    for k, m in metrics.items():
        same(frame.overall[k], m(y, g, s))
        same(frame.by_group.loc["n", k], m(y[region == "n"], g[region == "n"], s[region == "n"]))


def test_bootstrap_is_reproducible_and_covers():
    "Percentile intervals of 200 data sets hold the true DI about as often as they claim."
    rng, hits = np.random.default_rng(1), 0
    for k in range(200):
        s = rng.integers(2, size=500)
        f = np.clip(rng.random(500) * (.7 + .3 * s), 0, 1) # P(f > .5): 2/7 in group 0, 1/2 in 1
        rows = fairness_report(f > .5, f, s, n_boot=200, ci=.9, seed=k).rows
        row = next(r for r in rows if r.metric == "DI")
        hits += row.low <= (2 / 7) / (1 / 2) <= row.high
    assert 168 <= hits <= 192 # 90% of 200, give or take three standard errors
    a, b, c = (fairness_report(f > .5, f, s, n_boot=50, seed=k).to_frame() for k in (3, 3, 4))
    assert a.equals(b) and not a.equals(c)


def drawn_rows(y, f, codes, cells, drawn):
    "Rows that fall into the cells as often as these were drawn."
    scores = np.unique(f)
    assert len(scores) == len(cells.atoms)
    at = np.repeat(np.arange(drawn.size), drawn.ravel())
    k, label, place = np.unravel_index(at, drawn.shape)
    return label, scores[place], k


def test_bootstrap_equals_resampling_rows():
    "A resample as counts of cells gives what the resampled rows give."
    rng = np.random.default_rng(0)
    y, f, codes = rng.integers(2, size=80), rng.random(80), rng.integers(3, size=80)
    cells = tally(y, f, codes, .5)
    n, chance = 80, cells.counts.ravel() / 80
    drawn = rng.multinomial(n, chance, 20).reshape(20, *cells.counts.shape)
    whole, groups = summarise(*cell_tables(drawn, cells))
    whole["W1"] = cell_distances(drawn, cells)
    for k in range(20):
        r = fairness_report(*drawn_rows(y, f, codes, cells, drawn[k]))
        for m in whole:
            same(whole[m][k], r[m])
        for m in groups:
            same(groups[m][k], [r[m, g] for g in range(3)])


def test_drawn_cells_have_the_mean_and_spread_of_drawn_rows():
    rng = np.random.default_rng(3)
    y, f, codes = rng.integers(2, size=300), rng.random(300), rng.integers(2, size=300)
    counted = bootstrap(tally(y, f, codes, .4), 2000, seed=0)[0]
    rows = rng.integers(300, size=(2000, 300))
    by_hand = {"Acc": [(y[at] == (f[at] > .4)).mean() for at in rows],
               "W1": [fm.score_distance(f[at], codes[at], p=1) for at in rows[:500]]}
    for m, values in by_hand.items():
        se = np.std(values) / len(values) ** .5
        assert abs(np.mean(values) - counted[m].mean()) < 5 * se
        assert abs(np.std(values) / counted[m].std() - 1) < .15


@given(data(), st.integers(6, 60), st.sampled_from([0, .25, .5, 1]))
def test_pieces_of_the_scores_keep_every_count(d, most, threshold):
    y, f, _, s = d
    codes = np.unique(s, return_inverse=True)[1]
    fine, coarse = (tally(y, f, codes, threshold, n) for n in (10_000, most))
    tables = [cell_tables(c.counts[None], c) for c in (fine, coarse)]
    assert (tables[0][0] == tables[1][0]).all()
    same(tables[0][1], tables[1][1])
    wide = np.diff(coarse.atoms, prepend=0, append=1).max() # of a piece, and more
    apart = cell_distances(fine.counts[None], fine) - cell_distances(coarse.counts[None], coarse)
    assert np.abs(apart) <= 2 * wide + 1e-12


@given(st.integers(0, 10 ** 6), st.integers(3, 12), st.sampled_from([1, 1.5, 2, 3]))
def test_farthest_pair_is_that_of_all_pairs(seed, K, p):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 300, K)
    parts = [np.sort(rng.beta(*rng.uniform(1, 5, 2), n).round(rng.integers(1, 9))) for n in size]
    every = {(a, b): fm.sorted_distance(parts[a], parts[b], p)
             for a in range(K) for b in range(a + 1, K)}
    found = fm.farthest_pair(parts, p)
    same(every[tuple(sorted(found))], max(every.values()))


def test_several_attributes_are_intersections():
    rng = np.random.default_rng(0)
    sex, age = rng.choice(["f", "m"], 400), rng.choice(["young", "old", "older"], 400)
    y, f = rng.integers(2, size=400), rng.random(400)
    pairs = fairness_report(y, f, list(zip(sex.tolist(), age.tolist())), n_boot=20)
    coded = np.column_stack([sex == "m", np.unique(age, return_inverse=True)[1]]).astype(int)
    for both in (pd.DataFrame({"sex": sex, "age": age}), np.column_stack([sex, age]), coded,
                 torch.from_numpy(coded), pd.DataFrame({"sex": pd.Categorical(sex), "age": age})):
        r = fairness_report(y, f, both, n_boot=20)
        assert len(r.labels) == 6
        same([q.value for q in r.rows], [q.value for q in pairs.rows])
        same([q.high for q in r.rows], [q.high for q in pairs.rows])
    low, high = row_of(pairs, "DI").note.split(" to ")
    rates = fm.positive_rates(f > .5, list(zip(sex.tolist(), age.tolist())))
    assert ", ".join(min(rates, key=rates.get)) == low
    assert ", ".join(max(rates, key=rates.get)) == high


def row_of(report, metric, group=None):
    "The row of one metric."
    return next(r for r in report.rows if (r.metric, r.group) == (metric, group))


def test_fifty_groups_can_be_read():
    rng = np.random.default_rng(0)
    s, f = rng.integers(50, size=5000), rng.random(5000)
    r = fairness_report(f > .4, f, s, n_boot=30)
    assert max(map(len, repr(r).splitlines())) < 120
    assert r._tables()[1].shape == (50, 8)
    assert not math.isnan(row_of(r, "W1").high) and not math.isnan(row_of(r, "W2").high)


def test_memory_does_not_grow_with_rows_times_groups():
    rng = np.random.default_rng(0)
    n, K = 60_000, 50
    y, f, s = rng.integers(2, size=n), rng.random(n), rng.integers(K, size=n)
    tracemalloc.start()
    fairness_report(y, f, s, n_boot=20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n * K * 4 # a table of rows by cells, which was made before, has twice that


def test_closed_intervals_hold_and_reach_parity():
    "Of 400 data sets with equal groups, few intervals leave parity out; none needs resamples."
    rng, held = np.random.default_rng(5), []
    for _ in range(400):
        s, f = rng.integers(2, size=300), rng.random(300)
        r = fairness_report(rng.random(300) < f, f, s)
        held.append([row_of(r, "DI").high == 1, row_of(r, "DP difference").low == 0,
                     row_of(r, "W2").low == 0,
                     row_of(r, "positive rate", 0).low < .5 < row_of(r, "positive rate", 0).high])
    assert (np.abs(np.mean(held, 0) - .95) < .04).all() # some 3.5 standard errors
    assert all(math.isnan(row.low) for row in fairness_report(f > .5, f, s, ci=None).rows)


def test_group_names_are_escaped():
    r = fairness_report([1, 0], [.9, .1], ["<script>alert(1)</script>", "b"])
    assert "<script>" not in r._repr_html_() and "&lt;script&gt;" in r._repr_html_()


def test_undefined_rates_are_noted():
    r = fairness_report([1, 1, 0, 0], [.9, .4, .3, .2], ["a", "a", "b", "b"], n_boot=20)
    assert math.isnan(r["TP", "b"]) and math.isnan(r["EO difference"])
    assert "no observation with y = 1" in repr(r)
    assert math.isnan(fm.disparate_impact([0, 0], [0, 1]))


def reported(y=(1, 0), f=(.2, .4), s=(0, 1), **options):
    "A report that will be asked for later."
    return lambda: fairness_report(list(y), list(f), list(s), **options)


bad = {
    "empty": (lambda: fm.disparate_impact([], []), "empty"),
    "lengths": (lambda: fm.group_rates([1, 0], [1, 0, 1], [0, 1, 1]), "lengths differ"),
    "one group": (lambda: fm.disparate_impact([1, 0], [3, 3]), "one group only"),
    "NaN score": (reported(f=[.5, np.nan]), "NaN or infinite"),
    "infinite score": (lambda: fm.score_distance([.5, np.inf], [0, 1]), "NaN or infinite"),
    "logits": (lambda: fm.disparate_mse([1, 0], [3.5, -1], [0, 1]), "sigmoid"),
    "scores as predictions": (lambda: fm.disparate_impact([.3, .8], [0, 1]), "0 and 1 only"),
    "strings as labels": (lambda: fm.group_accuracy(["y", "n"], [1, 0], [0, 1]), "0 and 1 only"),
    "three labels": (lambda: fm.group_accuracy([0, 1, 2], [1, 0, 1], [0, 1, 1]), "0 and 1 only"),
    "missing label": (lambda: fm.group_accuracy([0, None], [1, 0], [0, 1]), "0 and 1 only"),
    "missing group": (lambda: fm.disparate_impact([1, 0, 1], ["a", np.nan, "b"]), "missing"),
    "matrix": (lambda: fm.disparate_impact(np.zeros((2, 2)), [0, 1]), "one-dimensional"),
    "one-hot": (lambda: fm.disparate_impact([0, 1], [[0, 1], [1, 0]]), "one-dimensional|hashable"),
    "scalar": (lambda: fm.disparate_impact(1, 0), "one-dimensional"),
    "text scores": (reported(f=["high", "low"]), "not made of numbers"),
    "threshold": (reported(threshold=50), "between 0 and 1"),
    "ci": (reported(ci=95), "coverage"),
    "n_boot": (reported(n_boot=-1), "whole number"),
    "seed": (reported(seed=-1), "whole number"),
}


@pytest.mark.parametrize("name", bad)
def test_bad_input_is_answered_in_words(name):
    call, words = bad[name]
    with pytest.raises(ValueError, match=words):
        call()


def test_pick_takes_what_four_experiments_take():
    "The same values as asking one by one, under plain names."
    rng = np.random.default_rng(0)
    y, f, s = rng.integers(2, size=90), rng.random(90), rng.integers(2, size=90)
    r = fairness_report(y, f, s)
    picked = r.pick("Acc", "W2", by_group=("GP", "TN"), prefix="valid_", EO="EO difference")
    assert picked == {
        "valid_Acc": r["Acc"], "valid_W2": r["W2"], "valid_EO": r["EO difference"],
        "valid_GP0": r["GP", 0], "valid_TN0": r["TN", 0],
        "valid_GP1": r["GP", 1], "valid_TN1": r["TN", 1],
    }
    assert r.pick(O_10=("FP", 1)) == {"O_10": r["FP", 1]}
    with pytest.raises(KeyError, match="of the whole there are Acc"):
        r.pick("accuracy")
