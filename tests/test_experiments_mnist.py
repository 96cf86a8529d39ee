"""The MNIST experiment: its grid, its rows, and the search for falsified labels."""
import warnings

import pandas as pd
import pytest
import torch

from fairw2_nb.data.mnist import load_mnist
from fairw2_nb.experiments.experiment import rows_of
from fairw2_nb.experiments.mnist import (LAMS, MNIST, PRESETS, best_weights, find_flipped,
                                         mnist_grid, mnist_run, train_digits)


def test_find_flipped_against_counting():
    part = load_mnist("none", 0)[0][:400]
    rows = ((part.s == 0) & (part.y == 1)).nonzero().flatten()[:20]
    biased = part.relabel(rows)

    class Oracle(torch.nn.Module): # gives the true label as its logit
        def forward(self, x): return 2 * biased.clean[self.rows] - 1
    net = Oracle()
    net.rows = ((biased.s == 0) & (biased.y == 0)).nonzero().flatten()
    found = find_flipped(net, biased)
    names = "found_precision", "found_AP", "above_half_recall", "above_half_precision"
    assert [found[name] for name in names] == [1, 1, 1, 1]
    assert find_flipped(net, part) == {}


@pytest.mark.parametrize("protocol", ["SR", "ST"])
@pytest.mark.parametrize("grad", ["exact", "paper"])
def test_nine_classifiers_for_each_weight(protocol, grad):
    frame = pd.DataFrame(mnist_grid())
    assert not frame.duplicated().any()
    part = frame[(frame.protocol == protocol) & ((frame.grad == grad) | (frame.lam == 0))]
    counts = part.groupby("lam").seed.nunique()
    assert list(counts.index) == [0., *LAMS] and (counts == 9).all()


def test_presets():
    assert PRESETS["paper"]["epochs"] == 50 and PRESETS["paper"]["batch_size"] == 200
    with pytest.raises(ValueError, match="expected one of quick, paper, tiny"):
        train_digits(None, None, "fast")


def test_stored_rows_are_complete():
    rows = rows_of(MNIST)
    known = set(zip(rows.protocol, rows.grad, rows.lam, rows.seed, rows.preset))
    for setting in mnist_grid():
        assert tuple(setting.values()) in known, setting


def test_a_run_comes_again_from_its_seed(monkeypatch):
    def few(*args, **options): return [part[:3000] for part in load_mnist(*args, **options)]
    monkeypatch.setattr("fairw2_nb.experiments.mnist.load_mnist", few)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (mnist_run("SR", "exact", 1., 5, "tiny") for _ in range(2))
    assert repr(a) == repr(b) # repr, since NaN differs from itself


def test_best_weights_do_not_lower_the_accuracy():
    values = dict(lam=[0., 1., 2., 3.], Acc=[.9, .91, .9, .8], DI=[.8, .9, .95, .99])
    parts = [pd.DataFrame(values | dict(protocol=p, grad=g))
             for p in ("SR", "ST") for g in ("exact", "paper")]
    best = best_weights(pd.concat(parts))
    assert set(best.lam[best.index.get_level_values(1) == "no penalty"]) == {0.}
    assert set(best.lam[best.index.get_level_values(1) != "no penalty"]) == {2.}
