"""The interval of W_2 and its parts: against leave-one-out, SciPy's quantiles, and by symmetry."""
from itertools import combinations

import numpy as np
import pytest
import torch
from fairw2_nb.penalty.debiased import debias_term
from fairw2_nb.transport.estimation import plug_in_bias, w2_and_variance, w2_interval
from fairw2_nb.transport.exact import wasserstein_1d
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

scores = st.lists(st.integers(0, 40).map(lambda k: k / 40), min_size=2, max_size=40)


def test_variance_is_that_of_leave_one_out():
    "The jackknife knows nothing of potentials."
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.beta(2, 4, 120)), np.sort(rng.beta(4, 2, 90))
    without = [[wasserstein_1d(np.delete(x, i), y).item() for i in range(len(x))],
               [wasserstein_1d(x, np.delete(y, j)).item() for j in range(len(y))]]
    jackknife = sum((len(v) - 1) ** 2 / len(v) * np.var(v) for v in without)
    np.testing.assert_allclose(w2_and_variance(x, y)[1], jackknife, rtol=.12)


def test_normal_laws_have_a_known_variance():
    "For a shift by d of one law the potential is linear: the variance is 4 d² σ² (1/n + 1/m)."
    n, m, d = 4000, 2000, .7
    x, y = (norm.ppf((np.arange(k) + .5) / k) for k in (n, m))
    found = w2_and_variance(x, y + d)[1]
    np.testing.assert_allclose(found, 4 * d ** 2 * (1 / n + 1 / m), rtol=.01)


@given(scores, scores, st.sampled_from([.5, 2., 10.]), st.sampled_from([-1., 0., 3.]))
def test_interval_moves_and_scales_with_the_scores(x, y, a, b):
    x, y = np.array(x), np.array(y)
    value, low, high = w2_interval(x, y)
    assert 0 <= low <= high
    np.testing.assert_allclose(w2_interval(y, x), (value, low, high), rtol=1e-9, atol=1e-7)
    moved = w2_interval(a * x + b, a * y + b)
    np.testing.assert_allclose(moved, (a * value, a * low, a * high), rtol=1e-6, atol=1e-6)


@given(scores, scores)
def test_a_higher_coverage_gives_a_wider_interval(x, y):
    (_, low, high), (_, lower, higher) = w2_interval(x, y, .8), w2_interval(x, y, .99)
    assert lower <= low + 1e-12 and high <= higher + 1e-12


@pytest.mark.parametrize("n", [200, 5000])
def test_bias_of_a_flat_law(n):
    "Evenly spaced scores have every gap at its mean: the integral of x (1 - x) is 1/6."
    np.testing.assert_allclose(plug_in_bias((np.arange(n) + .5) / n), 1 / (6 * n), rtol=.15)


@given(st.integers(0, 10 ** 6), st.integers(2, 6))
def test_term_is_the_mean_over_pairs(seed, K):
    "Of K groups what is subtracted is the mean over pairs of what is subtracted of each pair."
    rng = np.random.default_rng(seed)
    s = torch.from_numpy(np.concatenate([np.repeat(np.arange(K), 3), rng.integers(K, size=20)]))
    f = torch.from_numpy(rng.random(len(s)))
    value, grad = debias_term(f, s, len(s))
    pairs = list(combinations(range(K), 2))
    by_pair, gathered = 0., torch.zeros_like(f)
    for a, b in pairs:
        both = (s == a) | (s == b)
        v, g = debias_term(f[both], (s[both] == b), int(both.sum()))
        by_pair += v.item() / len(pairs)
        gathered[both] += g / len(pairs)
    np.testing.assert_allclose(value, by_pair, rtol=1e-10)
    np.testing.assert_allclose(grad, gathered, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(torch.stack([grad[s == k].sum() for k in range(K)]), 0, atol=1e-12)
