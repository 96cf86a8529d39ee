"""The synthetic problems against their formulas."""
import numpy as np
import pytest
import torch
from fairw2_nb.data.synthetic import synthetic_best, synthetic_biased, synthetic_logistic
from fairw2_nb.data.synthetic import synthetic_table
from fairw2_nb.metrics.disparities import disparate_impact
from scipy.stats import norm

CASES = pytest.mark.parametrize("means, share, flip", [
    ((-.7, .3), 2 / 3, .1),
    ((-.2, 1.), .3, .2),
    ((-1., -.5), .5, 0.),
    ((.4, .4), .5, .3),
])


@CASES
@pytest.mark.parametrize("di", [0., .8, 1.])
def test_best_rule_on_a_sample(means, share, flip, di):
    ds = synthetic_biased(200_000, 5, means, share, flip)
    best = synthetic_best(di, means, share, flip)
    pred = ds.x[:, 0] > torch.tensor(best["thresholds"])[ds.s]
    acc = (pred == ds.y).float().mean().item()
    assert abs(acc - best["Acc"]) < 5 * (.25 / 200_000) ** .5  # five standard errors
    for k in (0, 1):
        rate, errors = pred[ds.s == k].float().mean(), 5 * (.25 / (ds.s == k).sum()) ** .5
        assert abs(rate - best["rates"][k]) < errors
    assert best["DI"] >= di - 1e-12 and abs(disparate_impact(pred, ds.s) - best["DI"]) < .03


@CASES
@pytest.mark.parametrize("di", [.5, .85, 1.])
def test_no_pair_of_thresholds_is_better(means, share, flip, di):
    "A search over thresholds, with accuracies from areas under the normal density."
    t = np.linspace(-4, 4, 1601)
    r = [norm.sf(t - c) for c in means]
    wrong = [abs(norm.sf(t - c) - norm.sf(-c)) for c in means]  # P(g differs from the merit's sign)
    loss = (1 - share) * wrong[0][:, None] + share * wrong[1]
    acc = 1 - flip - (1 - 2 * flip) * loss
    least, most = np.minimum.outer(r[0], r[1]), np.maximum.outer(r[0], r[1])
    found = acc[least >= di * most - 1e-12].max()  # rounding, for parity
    best = synthetic_best(di, means, share, flip)["Acc"]
    assert best - .01 <= found <= best + 1e-11  # steps of .005 in the threshold


@pytest.mark.parametrize("draw", [synthetic_biased, synthetic_logistic, synthetic_table])
def test_a_draw_comes_from_its_seed(draw):
    a, b, c = draw(100, seed=1), draw(100, seed=1), draw(100, seed=2)
    assert all(torch.equal(u, v) for u, v in zip(a.tensors, b.tensors))
    assert not torch.equal(a.x, c.x)


def test_names_of_columns():
    assert synthetic_biased(100).names == ["z", "group", "noise 1", "noise 2"]


@pytest.mark.parametrize("bad", [dict(means=(1, 0)), dict(share=1.), dict(flip=.5), dict(di=1.2)])
def test_formulas_refuse(bad):
    with pytest.raises(ValueError, match="formulas need"):
        synthetic_best(**bad)


@pytest.mark.parametrize("rate", [.05, .25, .6])
@pytest.mark.parametrize("nonlinear, share", [(False, .35), (True, .05)])
def test_table_has_its_base_rate(rate, nonlinear, share):
    table = synthetic_table(100_000, rate, 3, nonlinear, share)
    assert abs(table.y.mean() - rate) < 6 * (rate * (1 - rate) / 100_000) ** .5
    assert abs((table.s == 0).float().mean() - share) < .01
    assert disparate_impact(table.y, table.s) < .8
