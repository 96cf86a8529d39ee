"""Certificates, intervals, tables and what a row of an experiment is made of, by number.

As in `test_guards.py`, nothing is compared with another part of the package: closed forms, examples
worked by hand, SciPy, and networks that are known."""
import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.data import adult as adult_data, census
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_logistic
from fairw2_nb.data.tables import load_table
from fairw2_nb.experiments import adult
from fairw2_nb.metrics.certificate import Certificate, certify
from fairw2_nb.metrics.report import fairness_report
from fairw2_nb.transport.estimation import plug_in_bias, w2_and_variance, w2_interval
from scipy import stats


# certificates and intervals

@pytest.mark.parametrize("p, level", [(1, .95), (2, .95), (1, .8)])
def test_room_of_a_distance(p, level):
    "Bernstein at .8 of the error, and at a tenth for each spread, those of samples with n - 1."
    rng, error = np.random.default_rng(p), 1 - level
    a, b = rng.beta(2, 9, 700), rng.beta(2, 8, 400)
    found = certify(np.r_[a, b], np.repeat([0, 1], [700, 400]), metric=f"W{p}", at_most=.5,
                    level=level)
    gaps = np.repeat(np.sort(a), 400) - np.repeat(np.sort(b), 700)
    measured = np.mean(np.abs(gaps) ** p)
    most = [min(p * (np.std(v, ddof=1) + np.sqrt(2 * np.log(1 / (.1 * error)) / (len(v) - 1))), .5)
            for v in (a, b)]
    log = -np.log(.8 * error)
    room = np.sqrt(2 * log * (most[0] ** 2 / 700 + most[1] ** 2 / 400)) + log / (3 * 400)
    assert found.value ** p == pytest.approx(measured)
    assert found.bound ** p == pytest.approx(measured + room)


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


# rows

def test_networks_of_table_1_see_their_part_only(monkeypatch):
    "Trained on four fifths of the training part, steered by the other fifth, measured on the test."
    calls, real = [], adult.fit

    def load(seed=0): return synthetic_logistic(600, seed).split(.25, seed=seed)

    def fit(net, part, **options):
        calls.append((net, part, options))
        return real(net, part, **options)
    monkeypatch.setattr(adult, "load_adult", load)
    monkeypatch.setattr(adult, "fit", fit)
    for name, epochs in (("tiny", 3), ("quick", 1)):
        monkeypatch.setitem(adult.PRESETS, name, dict(batch_size=90, epochs=epochs))
    with pytest.warns(UserWarning, match="After 3 epochs"): row = adult.adult_run("NNrW", 5, "tiny")
    train, test = load(5)
    net, part, options = calls[0]
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
