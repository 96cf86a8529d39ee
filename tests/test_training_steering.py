"""Steering to a target: its parts, small runs, and what it says of bad data."""
import math

import pytest
import torch
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_table
from fairw2_nb.metrics.disparities import disparate_impact
from fairw2_nb.training.steering import Aim, binormal_rates, deal_folds, fresh_copy, next_lambda
from fairw2_nb.training.steering import steer
from hypothesis import given, settings, strategies as st
from scipy.stats import norm
from torch import nn

QUICK = dict(networks=2, epochs=(2, 3, 2), batch_size=100, lr=5e-3)


def net(inputs=6):
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))


@settings(deadline=None, max_examples=30)
@given(st.integers(20, 200), st.integers(2, 6), st.integers(0, 5))
def test_folds_are_even_in_every_cell(n, k, seed):
    g = torch.Generator().manual_seed(seed)
    y, s = (torch.randint(2, (n,), generator=g) for _ in range(2))
    fold = deal_folds(y, s, k, g)
    for cell in range(4):
        counts = fold[2 * s + y == cell].bincount(minlength=k)
        assert counts.max() - counts.min() <= 1
    assert set(fold.tolist()) <= set(range(k))


@pytest.mark.parametrize("q", [.07, .3, .5])
@pytest.mark.parametrize("sds", [(1., 1.), (1.1, .95)])
def test_binormal_rates_of_normal_groups(q, sds):
    "Exact for normal groups of equal spread; close where the pooled law is not normal."
    levels = (torch.arange(20_000).double() + .5) / 20_000
    quantiles = torch.special.ndtri(levels)
    z = torch.cat([sds[0] * quantiles - .2, sds[1] * quantiles + .2])
    s = torch.arange(40_000) >= 20_000
    (r_0, r_1), _ = binormal_rates(z, s, q)
    cut = z.quantile(1 - q).item()
    want = [norm.sf((cut + .2) / sds[0]), norm.sf((cut - .2) / sds[1])]
    assert abs(r_0 + r_1 - 2 * q) < 1e-3
    assert abs(math.log(r_0 / r_1) - math.log(want[0] / want[1])) < .06


def test_binormal_rates_see_ranks_only():
    g = torch.Generator().manual_seed(0)
    z, s = torch.randn(500, generator=g), torch.arange(500) % 3 == 0
    assert binormal_rates(z, s, .2) == binormal_rates(z.exp() * 5 - 3, s, .2)


def test_what_is_missing_is_0_at_the_target_and_falls_with_the_ratio():
    aim = Aim(.8, "DI", worse=1)
    assert abs(aim.missing([.25, .2], 0.)) < 1e-12
    assert aim.missing([.25, .15], 0.) > 0 > aim.missing([.25, .24], 0.)
    assert aim.missing([.25, 0.], 0.) > 3 and math.isfinite(aim.missing([0., 0.], 0.))
    gap = Aim(.05, "DP difference", worse=0)
    assert gap.missing([.1, .2], 0.) > 0 > gap.missing([.18, .2], 0.)


def test_lambda_stays_within_its_bounds():
    assert next_lambda(.001, -5.) == .001 and next_lambda(10., 5.) == 10.
    assert 1 < next_lambda(1., .05) < next_lambda(1., .1) <= 1.5


def test_copies_have_new_weights_and_leave_the_model_alone():
    model = net()
    before = [p.clone() for p in model.parameters()]
    a, b, c = fresh_copy(model, 1), fresh_copy(model, 1), fresh_copy(model, 2)
    assert all(torch.equal(u, v) for u, v in zip(before, model.parameters()))
    assert all(torch.equal(u, v) for u, v in zip(a.parameters(), b.parameters()))
    assert not torch.equal(a[0].weight, c[0].weight)


def test_a_small_run_meets_its_promises():
    table, new = synthetic_table(1500, .3, 1), synthetic_table(20_000, .3, 2)
    out = steer(net(), table, .85, networks=3, epochs=(4, 12, 6), batch_size=60, lr=3e-3)
    pred = out.predict(new.x)
    assert out.history[0]["lam"] == 0 and out.history[0]["DI"] < .7
    assert disparate_impact(pred, new.s) > .7
    assert .7 < pred.float().mean() / .3 < 1.3
    assert out.reached.low < out.reached.value < out.reached.high
    assert torch.equal(pred, out.scores(new.x) > out.threshold)
    assert .001 <= out.lam <= 10


def test_the_same_seed_gives_the_same_networks():
    table = synthetic_table(400, .3)
    a, b = (steer(net(), table, **QUICK) for _ in range(2))
    assert a.threshold == b.threshold and torch.equal(a(table.x), b(table.x))


@pytest.mark.parametrize("metric, target", [
    ("DP difference", .05), ("EO difference", .1), ("DMSE", .9)])
def test_other_metrics(metric, target):
    out = steer(net(), synthetic_table(600, .4), target, metric, **QUICK)
    assert out.history[-1][metric] >= 0 and out.reached.low <= out.reached.value


def test_thresholds():
    table = synthetic_table(600, .3)
    kept = steer(net(), table, **QUICK)
    assert abs(kept.predict(table.x).float().mean() - table.y.mean()) < .01
    own = steer(net(), table, threshold=.99, **QUICK)
    assert own.threshold == .99 and any("are positive at the threshold" in n for n in own.notes)
    best = steer(net(), table, .3, threshold="accuracy", **QUICK)
    share = best.predict(table.x).float().mean() / table.y.mean()
    assert .45 < share < 2.1


def test_collapse_is_undone_and_said(monkeypatch):
    "An epoch that makes a network constant does not raise the weight."
    from fairw2_nb.training import steering
    real, calls = steering.Run.train, []

    def train(self, lam, gain):
        real(self, lam, gain)
        calls.append(lam)
        if len(calls) == 4:
            with torch.no_grad():
                for p in [*self.out.parameters(), *self.live.parameters()]:
                    p.zero_()
    monkeypatch.setattr(steering.Run, "train", train)
    out = steer(net(), synthetic_table(600, .2), **QUICK)
    assert calls[4] <= calls[3] / 3.9
    assert any("Epoch 4 was undone" in note for note in out.notes)
    assert out.scores(torch.randn(50, 6)).std() > 0


def test_few_members_are_said():
    table = synthetic_table(400, .4, share=.04)
    out = steer(net(), table, **QUICK)
    assert any("members in one of the folds" in note for note in out.notes)


@pytest.mark.parametrize("metric", ["DI", "EO difference", "DMSE"])
def test_a_group_of_three_gives_sentences_not_nan(metric):
    table = synthetic_table(150, .4)
    s = torch.ones(150)
    s[table.y.argsort()[:3]] = 0 # none of them with y = 1
    out = steer(net(), FairDataset(table.x, table.y, s), .8, metric, **QUICK)
    numbers = [out.threshold, out.lam, *(out.reached or ())]
    assert out.notes and all(map(math.isfinite, numbers))
    assert all(math.isfinite(row["d"]) for row in out.history)


@pytest.mark.parametrize("change, message", [
    (dict(y=torch.ones(100)), "labels of `train`"),
    (dict(s=torch.zeros(100)), "one group only"),
])
def test_one_class_or_one_group_is_refused(change, message):
    parts = dict(x=torch.randn(100, 6), y=torch.arange(100) % 2, s=torch.arange(100) % 4 > 1)
    with pytest.raises(ValueError, match=message):
        steer(net(), FairDataset(**parts | change))


@pytest.mark.parametrize("change, message", [
    (dict(target=0), "above 0"), (dict(metric="AUC"), "expected one of DI"),
    (dict(threshold="half"), "or a number"), (dict(networks=1), "at least two networks"),
    (dict(epochs=(1, 0, 1)), "three numbers"),
])
def test_bad_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        steer(net(), synthetic_table(100), **change)


@pytest.mark.parametrize("row", [{"DI": math.nan}, {"DI": .2, "positive rate": 0.}])
def test_the_papers_controller_does_not_push_a_collapsed_network(row):
    from fairw2_nb.training.lambdas import TargetTuner
    tuner = TargetTuner(.85, acc=0.)
    assert tuner.factor({"Acc": .9} | row) == tuner.down
    assert "no target" in tuner.verdict([{"Acc": .9, "lam": 300.} | row])
