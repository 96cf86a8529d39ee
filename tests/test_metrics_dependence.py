"""Distance correlation against its definition, a closed form, and what leaves it alone."""
from math import asin, pi, sqrt

import numpy as np
import pytest
import torch
from fairw2_nb.experiments.ages import rate_gap
from fairw2_nb.metrics.dependence import distance_correlation, distance_covariance
from hypothesis import given
from hypothesis import strategies as st

few = st.lists(st.integers(-5, 5), min_size=6, max_size=6)


def by_loops(x, z):
    "The mean product of centred distances, one pair after the other."
    n, (a, b) = len(x), [[[abs(u - v) for u in t] for v in t] for t in (x, z)]
    rows = [[sum(line) / n for line in d] for d in (a, b)]
    means = [sum(r) / n for r in rows]
    total = 0.
    for i in range(n):
        for j in range(n):
            A, B = (d[i][j] - r[i] - r[j] + m for d, r, m in zip((a, b), rows, means))
            total += A * B
    return total / n ** 2


@given(few, few)
def test_it_is_its_definition(x, z):
    x, z = np.array(x, float), np.array(z, float)
    for block in (1, 12, 2 ** 20):
        assert distance_covariance(x, z, block) == pytest.approx(by_loops(x, z), abs=1e-10)
    spread = by_loops(x, x) * by_loops(z, z)
    wanted = sqrt(max(0., by_loops(x, z)) / sqrt(spread)) if spread > 1e-12 else 0.
    assert distance_correlation(x, z) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("rho", [0., .3, .8])
def test_two_normal_variables(rho):
    one, two = np.random.default_rng(1).standard_normal((2, 3000))
    top = rho * asin(rho) + sqrt(1 - rho ** 2) - rho * asin(rho / 2) - sqrt(4 - rho ** 2) + 1
    wanted = sqrt(top / (1 + pi / 3 - sqrt(3)))
    found = distance_correlation(one, rho * one + sqrt(1 - rho ** 2) * two)
    assert found == pytest.approx(wanted, abs=.05)  # about three standard errors


def test_what_leaves_it_alone():
    x, z = np.random.default_rng(0).random((2, 200))
    R = distance_correlation(x, z)
    assert distance_correlation(7 - 3 * x, z) == pytest.approx(R, rel=1e-9)
    assert distance_correlation(z, torch.as_tensor(x)) == pytest.approx(R, rel=1e-9)
    assert distance_correlation(x, -x) == pytest.approx(1., abs=1e-7)
    assert distance_correlation(x, x * 0) == 0.


@pytest.mark.parametrize("values, words", [
    (["a"] * 5, "not made of numbers"), ([1., 2.], "lengths differ"),
    ([np.nan] * 5, "5 NaN"), (np.ones(5) * 1j, "complex")])
def test_mistakes(values, words):
    with pytest.raises(ValueError, match=words): distance_correlation(np.arange(5.), values)


def test_gap_of_tenths():
    age = np.repeat(np.arange(10), 20)[::-1]
    share = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 10])[age] / 10
    yes = np.tile(np.arange(20) / 20, 10) < share
    assert rate_gap(np.where(yes, .9, .1), age) == pytest.approx(1.)
    assert rate_gap(np.where(yes, .4, .1), age) == 0.
