"""Many groups: all pairs by POT, the torch road, weights, numbers that are too large."""
from itertools import combinations

import numpy as np
import ot
import pytest
import torch
from fairw2_nb.transport.barycentre import barycentre_costs, check_range, count_groups
from fairw2_nb.transport.barycentre import group_costs, group_order, group_weights, pairwise_costs
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:The use of `x.T`")
KINDS = "equal", "share", "root"


def draw(K, n, seed, ties=False):
    "Values of K groups that are all there, some of them small."
    rng = np.random.default_rng(seed)
    s = np.concatenate([np.arange(K), rng.choice(K, n - K, p=rng.dirichlet(np.ones(K)))])
    f = rng.integers(0, 20, n) / 20 if ties else rng.permutation(n) / n
    return f + .1 * s / K, s


def in_order(f, s):
    "Values and groups, group after group, and sizes."
    order, s, sizes, _ = group_order(f, s)
    return order, f[order], s[order], sizes


def by_pot(f, s, w, p):
    "The weighted mean over pairs and its gradient, by POT and autograd."
    z = torch.tensor(f, requires_grad=True)
    of = [z[torch.as_tensor(s == k)] for k in np.unique(s)]
    pairs = list(combinations(range(len(of)), 2))
    total = sum(w[a] * w[b] * ot.wasserstein_1d(of[a], of[b], p=p) for a, b in pairs)
    total = total / sum(w[a] * w[b] for a, b in pairs)
    return total.item(), torch.autograd.grad(total, z)[0].numpy()


@pytest.mark.parametrize("K, n", [(2, 90), (3, 200), (7, 300), (20, 600), (50, 700)])
@pytest.mark.parametrize("kind", KINDS)
def test_all_pairs_by_pot(K, n, kind):
    "No two values of a group tie, so that POT's own sort has the same derivative."
    f, s = draw(K, n, K)
    order, x, groups, sizes = in_order(f, s)
    w = group_weights(kind, sizes)
    value, g = group_costs(x, sizes, 2, w)
    theirs, grad = by_pot(f, s, w, 2)
    assert abs(value - theirs) < 1e-9 * theirs
    assert np.abs(g - grad[order]).max() < 1e-9 * np.abs(grad).max()


@given(st.integers(3, 12), st.integers(0, 200), st.integers(0, 1000), st.sampled_from(KINDS))
def test_the_barycentre_is_all_pairs_with_ties(K, more, seed, kind):
    _, x, s, sizes = in_order(*draw(K, K + more, seed, ties=True))
    w = group_weights(kind, sizes)
    value, g = group_costs(x, sizes, 2, w)
    value_, g_ = pairwise_costs(x, sizes, w)
    np.testing.assert_allclose(value, value_, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(g, g_, rtol=1e-9, atol=1e-13)
    assert abs(g.sum()) < 1e-12 and abs(g @ x - 2 * value) < 1e-11
    same = np.unique(np.stack([x, s]), axis=1, return_inverse=True)[1].ravel()
    for run in range(same.max() + 1):
        assert np.ptp(g[same == run]) == 0


@given(st.integers(2, 9), st.integers(0, 1000), st.sampled_from([1, 2, 3]), st.booleans())
def test_other_devices_take_the_same_road(K, seed, p, weighted):
    "The torch operations used off the CPU give what NumPy gives on it."
    f, s = draw(K, 60, seed, ties=seed % 2)
    order, x, groups, sizes = in_order(f, s)
    there = in_order(torch.tensor(f), torch.tensor(s))
    mass = None
    if weighted:
        mass = np.random.default_rng(seed).random(60)
        mass /= np.bincount(groups, mass)[groups]
    value, g = group_costs(x, sizes, p, mass=mass)
    as_tensor = None if mass is None else torch.tensor(mass)
    value_, g_ = group_costs(there[1], there[3], p, mass=as_tensor)
    np.testing.assert_allclose(value, float(value_), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(g, g_.numpy(), rtol=1e-9, atol=1e-13)


@given(st.integers(2, 6), st.integers(0, 1000))
def test_whole_weights_are_repetitions(K, seed):
    rng = np.random.default_rng(seed)
    _, x, s, sizes = in_order(*draw(K, 50, seed, ties=True))
    times = rng.integers(1, 4, 50)
    total = np.bincount(s, times).astype(int)
    value, g = barycentre_costs(x, sizes, np.full(K, 1 / K), times / total[s])
    again = np.repeat(np.arange(50), times)
    value_, g_ = barycentre_costs(x[again], total, np.full(K, 1 / K))
    np.testing.assert_allclose(value, value_, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(g, np.bincount(again, g_), rtol=1e-8, atol=1e-13)


def test_far_from_zero_is_as_exact():
    "Scores around 10^6: differences are what counts."
    f, s = draw(5, 400, 0)
    _, x, s, sizes = in_order(f, s)
    far = group_costs(x + 2. ** 20, sizes)
    np.testing.assert_allclose(far[0], group_costs(x, sizes)[0], rtol=1e-8)


@given(st.lists(st.integers(-10 ** 15, 10 ** 15), min_size=1, max_size=60))
def test_any_numbering(s):
    names, codes, sizes = np.unique(s, return_inverse=True, return_counts=True)
    as_tensors = group_order(torch.zeros(len(s)), torch.tensor(s))[1:3]
    for found in (count_groups(np.array(s)), as_tensors):
        assert (np.asarray(found[0]) == codes).all() and found[1] == sizes.tolist()


@pytest.mark.parametrize("ends, p, words", [
    ((0., float("nan")), 2, "NaN or infinite"), ((-float("inf"), 0.), 2, "NaN or infinite"),
    ((0., 1e160), 2, "smaller p"), ((-1.7e308, 1.7e308), 1, "smaller p"),
    ((0., 3.), 1000, "smaller p")])
def test_numbers_without_an_answer(ends, p, words):
    with pytest.raises(ValueError, match=words):
        check_range(np.array(ends), ends, p)


@given(st.integers(1001, 3000), st.integers(1, 1000), st.integers(0, 50))
@settings(max_examples=20)
def test_digit_by_digit_is_the_order_of_a_sort(n, K, seed):
    "Of both signs, with ties, zeros of both signs and the largest numbers there are."
    rng = np.random.default_rng(seed)
    ends = np.float32([0, -0., 3.4e38, -3.4e38, 1e-45, -1e-45])
    f = np.concatenate([rng.normal(size=n - 12).round(seed % 4), ends, ends]).astype(np.float32)
    s = rng.integers(0, K, n)
    order, codes, *_ = group_order(f, s)
    expected = np.lexsort((f, s))
    assert (f[order] == f[expected]).all() and (s[order] == s[expected]).all()
    assert (np.sort(order) == np.arange(n)).all()
