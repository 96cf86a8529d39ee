"""Sorting is optimal: against all pairings, a linear programme, and the identity."""
from fractions import Fraction
from itertools import permutations

import numpy as np
import torch
from fairw2_nb.transport.exact import wasserstein_1d
from fairw2_nb.transport.inputs import sort_samples, unsort
from fairw2_nb.transport.sorting import rank_cells, weighted_cells
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

whole = st.integers(-40, 40)
exponents = st.sampled_from([1, 1.5, 2, 3])
weights = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def table(cells, n, m):
    "The plan of cells."
    i, j, width = cells
    return np.bincount(i * m + j, width, n * m).reshape(n, m)


@given(whole, whole, whole, whole)
def test_uncrossing_saves_twice_the_product(a, b, c, d):
    (x, x_), (y, y_) = sorted((a, b)), sorted((c, d))
    crossed, uncrossed = (x - y_) ** 2 + (x_ - y) ** 2, (x - y) ** 2 + (x_ - y_) ** 2
    assert crossed - uncrossed == 2 * (x_ - x) * (y_ - y) >= 0


@given(st.lists(whole, min_size=1, max_size=5), st.randoms(), exponents)
def test_no_pairing_is_cheaper(x, random, p):
    y = [random.randint(-40, 40) for _ in x]
    least = min(sum(abs(a - b) ** p for a, b in zip(x, other)) for other in permutations(y))
    assert np.isclose(wasserstein_1d(x, y, p).item() * len(x), least, rtol=1e-12, atol=1e-12)


@given(weights, weights, st.integers(0, 1000), exponents)
def test_no_plan_is_cheaper(u, v, seed, p):
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.random(len(u))), np.sort(rng.random(len(v)))
    x_mass, y_mass = np.array(u) / sum(u), np.array(v) / sum(v)
    cost = np.abs(x[:, None] - y) ** p
    sums = [np.kron(np.eye(len(u)), np.ones(len(v))), np.kron(np.ones(len(u)), np.eye(len(v)))]
    least = linprog(cost.ravel(), A_eq=np.concatenate(sums), b_eq=np.r_[x_mass, y_mass]).fun
    plan = table(weighted_cells(x_mass, y_mass), len(u), len(v))
    np.testing.assert_allclose((plan * cost).sum(), least, rtol=1e-6, atol=1e-9)


@given(st.integers(1, 30), st.integers(1, 30))
def test_cells_of_equal_weights_are_the_rank_cells(n, m):
    ours = table(rank_cells(n, m), n, m)
    pieces = np.zeros((n, m), int)
    np.add.at(pieces, (np.repeat(np.arange(n), m), np.repeat(np.arange(m), n)), 1)
    assert (ours == pieces).all()
    weighted = table(weighted_cells(np.full(n, 1 / n), np.full(m, 1 / m)), n, m)
    np.testing.assert_allclose(weighted, pieces / (n * m), atol=1e-12)


@given(st.lists(whole, min_size=1, max_size=20))
def test_unsort_undoes_the_sort(values):
    x = torch.tensor([float(Fraction(v, 8)) for v in values], dtype=torch.float64)
    (xs, _), masses, (order, _) = sort_samples(x, x)
    assert (np.diff(xs) >= 0).all() and masses == (None, None)
    assert torch.equal(unsort(xs, order), x)
