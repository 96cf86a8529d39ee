"""The experiment on many groups: folds, the choice of strengths, pooling."""
import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.experiments.groups import chosen_strengths, counted, fold_of, pooled
from fairw2_nb.experiments.groups import groups_grid, groups_table, smallest_ratio
from fairw2_nb.data.dataset import FairDataset


def row(method, strength, fold, acc, yes, n=(1000, 500, 20), **more):
    "A row whose held-out part looks like the reported one."
    right = [int(acc * k) for k in n]
    return dict(table="t", method=method, strength=strength, fold=fold, Acc=acc, n=list(n),
                yes=list(yes), right=right, valid_Acc=acc, valid_n=list(n), valid_yes=list(yes),
                groups=list("abc")) | more


def test_folds_share_every_cell():
    g = torch.Generator().manual_seed(0)
    y, s = torch.randint(0, 2, (997,), generator=g), torch.randint(0, 6, (997,), generator=g)
    fold = fold_of(y, s)
    for cell in range(12):
        sizes = torch.bincount(fold[2 * s + y == cell], minlength=5)
        assert sizes.max() - sizes.min() <= 1
    assert sorted(fold.unique().tolist()) == list(range(5))
    assert torch.equal(fold, fold_of(y, s)) and not torch.equal(fold, fold_of(y, s, seed=1))


def test_ratio_and_gap():
    di, gap = smallest_ratio([10, 30, 0], [100, 100, 3])
    assert (di, gap) == (0, .3)
    assert smallest_ratio([10, 30, 0], [100, 100, 3], 50) == pytest.approx((1 / 3, .2))


def test_the_most_accurate_that_meets_the_wish_is_chosen():
    rows = pd.DataFrame([
        row("W2", 4., 0, .86, (200, 60, 0)),  # not fair enough
        row("W2", 8., 0, .85, (200, 90, 0)),  # the group of 20 is not asked
        row("W2", 16., 0, .84, (200, 99, 4)),
        row("W2", 4., 1, .86, (200, 50, 0)),  # none meets the wish: the fairest
        row("W2", 8., 1, .85, (200, 60, 0)),
    ])
    best = chosen_strengths(rows).set_index("fold").strength
    assert best.to_dict() == {0: 8., 1: 8.}
    line = groups_table(rows).loc["t", "W2"]
    assert line.DI == 0 and line.folds == 2 and line.accuracy == pytest.approx(.85, abs=.002)


def test_folds_are_pooled_by_counts():
    rows = pd.DataFrame([row("W2", 1., 0, .9, (10, 0, 0), (100, 10, 10)),
                         row("W2", 1., 1, .5, (10, 5, 3), (100, 30, 10))])
    found = pooled(rows)
    rates = np.array([20 / 200, 5 / 40, 3 / 20])
    assert found.DI == pytest.approx(rates.min() / rates.max())
    assert found.gap == pytest.approx(rates.max() - rates.min())
    assert found["DI, mean of folds"] == pytest.approx((0 + .1 / .3) / 2)


def test_counts():
    data = FairDataset(np.zeros((6, 1)), [0, 1, 1, 0, 1, 1], [0, 0, 1, 1, 2, 2])
    found = counted(torch.tensor([.9, .9, .1, .1, .6, .4]), data, "valid_")
    assert found["valid_yes"] == [2, 0, 1] and found["valid_right"] == [1, 1, 1]
    assert found["valid_n"] == [2, 2, 2] and found["valid_Acc"] == .5


def test_grid():
    found = groups_grid(folds="0-1", tables=["race"], methods=["plain", "EquiPy"])
    assert [(r["method"], r["fold"]) for r in found] == [
        ("plain", 0), ("EquiPy", 0), ("plain", 1), ("EquiPy", 1)]
    for wrong, words in ((dict(tables=["rase"]), "table = 'rase': expected one of race,"),
                         (dict(methods=["magic"]), "method = 'magic': expected one of plain,"),
                         (dict(folds="4-5"), "fold = 5: expected one of 0, 1, 2, 3, 4")):
        with pytest.raises(ValueError, match=words): groups_grid(**wrong)
