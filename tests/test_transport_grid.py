"""Properties of the grid CDFs: counts, knots, merging, inverses, correspondence, errors."""
import math
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import ot
import pytest
import torch
from fairw2_nb.transport.grid import GroupCDF, bin_index, eta_grid, group_cdf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

n_bins = st.integers(1, 40)
on_knots = st.integers(0, 64).map(lambda k: k / 64)  # often equal to each other and to knots
anywhere = st.floats(0, 1, allow_subnormal=False)
pairs = st.lists(st.tuples(on_knots | anywhere, st.integers(0, 1)), min_size=1, max_size=80)
both = pairs.filter(lambda p: len({g for _, g in p}) == 2)
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def tensors(pairs, dtype=torch.float64):
    "Scores and groups from a list of pairs."
    scores, s = zip(*pairs)
    return torch.tensor(scores, dtype=dtype), torch.tensor(s)


def sample(n_0=60, n_1=140, seed=0):
    "Scores of two Beta laws."
    rng = np.random.default_rng(seed)
    f = torch.tensor(np.concatenate([rng.beta(2, 3, n_0), rng.beta(6, 6, n_1)]))
    return f, (torch.arange(n_0 + n_1) >= n_0).long()


@given(pairs, n_bins)
def test_every_score_is_counted_once(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J)
    assert cdf.counts.shape == (2, J) and cdf.counts.dtype == torch.int64 and cdf.n_bins == J
    assert cdf.n.tolist() == [int((s == g).sum()) for g in (0, 1)]
    assert cdf.eta.shape == (J + 1,) and cdf.eta[0] == scores.min() and cdf.eta[-1] == scores.max()


@given(pairs, n_bins)
@settings(max_examples=100)  # a guard of tests/mutants.py
def test_bins_are_half_open_and_the_last_is_closed(pairs, J):
    scores, _ = tensors(pairs)
    eta = eta_grid(scores, J)
    for f, j in zip(scores, bin_index(scores, eta).tolist()):
        assert eta[j] <= f and (f < eta[j + 1] or (j == J - 1 and f == eta[-1]))


@given(both, n_bins)
@settings(max_examples=100)  # a guard of tests/mutants.py
def test_h_is_the_strict_sum_of_indicators(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J, lo=0, hi=1)
    for g in (0, 1):
        mine = scores[s == g]
        for j, knot in enumerate(cdf.eta):
            below = int((mine < knot).sum()) if j < J else len(mine)
            assert cdf.H[g, j] == below / len(mine)


@given(both, n_bins)
def test_h_increases_from_zero_to_one(pairs, J):
    H = group_cdf(*tensors(pairs), J).H
    assert (H[:, 0] == 0).all() and (H[:, -1] == 1).all() and (H.diff() >= 0).all()


@given(pairs, pairs, pairs, n_bins)
def test_merging_is_counting_together(a, b, c, J):
    parts = [group_cdf(*tensors(p), J, lo=0, hi=1) for p in (a, b, c)]
    whole = group_cdf(*tensors(a + b + c), J, lo=0, hi=1)
    x, y, z = parts
    for merged in ((x + y) + z, x + (y + z), z + y + x):
        assert torch.equal(merged.counts, whole.counts) and torch.equal(merged.eta, whole.eta)


def test_five_parts_have_the_same_cost_and_correspondence():
    f, s = sample(300, 700)
    cuts = [3, 97, 200, 300, 400]
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    whole = group_cdf(f, s, lo=0, hi=1)
    parts = zip(f[order].split(cuts), s[order].split(cuts))
    merged = reduce(add, (group_cdf(a, b, lo=0, hi=1) for a, b in parts))
    assert torch.equal(merged.w2(), whole.w2()) and torch.equal(merged.cor(f, s), whole.cor(f, s))


@given(both, n_bins)
def test_a_score_returns_to_its_own_bin(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J, lo=0, hi=1)
    back = cdf.quantile(cdf.at(scores, s), s, "right")
    j = bin_index(scores, cdf.eta)
    assert ((cdf.eta[j] <= back) & (back <= cdf.eta[j + 1])).all()


def first_and_last(row):
    "The first and the last bin with a score."
    filled = row.nonzero().flatten()
    return filled[0], filled[-1]


@given(both, n_bins, st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_quantiles_increase_and_invert_h(pairs, J, tau):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J)
    tau = torch.tensor([0, *sorted(tau), 1], dtype=torch.float64)
    for g in (0, 1):
        left, middle, right = (cdf.quantile(tau, g, side) for side in ("left", "middle", "right"))
        assert ((left <= middle + 1e-15) & (middle <= right + 1e-15)).all()
        first, last = first_and_last(cdf.counts[g])
        for q in (left, middle, right):
            assert (q.diff() >= -1e-12).all()
            assert q[0] == cdf.eta[first] and q[-1] == cdf.eta[last + 1]
            if cdf.eta[0] < cdf.eta[-1]:  # H is flat on gaps: it takes q back to tau
                width = float(cdf.eta[-1] - cdf.eta[0])
                assume(width > 1e-6)
                level = cdf.at(q.clamp(cdf.eta[0], cdf.eta[-1]), torch.full_like(q, g))
                assert_close(level, tau, rtol=0, atol=1e-9 / min(width, 1))


@given(both, n_bins)
def test_quantiles_are_those_of_the_sample_within_a_bin(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J, lo=0, hi=1)
    for g in (0, 1):
        atoms = scores[s == g].sort().values
        tau = (torch.arange(len(atoms), dtype=torch.float64) + .5) / len(atoms)
        assert ((cdf.quantile(tau, g) - atoms).abs() <= 1 / J + 1e-12).all()


@given(both, n_bins)
def test_sides_follow_the_rational_definition(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J, lo=0, hi=1)
    for g in (0, 1):
        n, cum = int(cdf.n[g]), [0, *cdf.counts[g].cumsum(0).tolist()]
        for k in range(1, n):
            left = min(j for j in range(J + 1) if cum[j] >= k)   # first knot with H >= k/n
            right = max(j for j in range(J + 1) if cum[j] <= k)  # last knot with H <= k/n
            if left <= right:  # k/n is a level of H: the ends of its flat part (or one knot)
                want = {"left": cdf.eta[left], "right": cdf.eta[right]}
                want["middle"] = (want["left"] + want["right"]) / 2
                for side, value in want.items():
                    assert_close(cdf.quantile(k / n, g, side), value, rtol=0, atol=1e-14)


scores_of_both = st.lists(on_knots | anywhere, min_size=1, max_size=40)


@given(scores_of_both, n_bins, st.randoms(), st.sampled_from([torch.float32, torch.float64]))
def test_identical_groups_correspond_to_themselves(values, J, random, dtype):
    pairs = [(v, g) for v in values for g in (0, 1)]
    random.shuffle(pairs)
    scores, s = tensors(pairs, dtype)
    cdf = group_cdf(scores, s, J)
    j = bin_index(scores, cdf.eta)
    cor = cdf.cor(scores, s)
    assert ((cdf.eta[j] <= cor) & (cor <= cdf.eta[j + 1])).all()  # in the same bin
    assert_close(cor, scores, rtol=0, atol=50 * len(values) * torch.finfo(dtype).eps)
    assert cdf.w2() == 0


def test_rounding_does_not_lift_a_score_over_a_gap():
    just_below = float(np.nextafter(np.float32(.5), np.float32(0)))
    f = torch.tensor([.05] * 1000 + [just_below, .95]).repeat(2)
    s = torch.arange(2004) // 1002
    assert_close(group_cdf(f, s, 10, lo=0, hi=1).cor(f, s), f, rtol=0, atol=1e-3)


@given(both, n_bins, st.integers(-8, 8).map(lambda k: k / 8))
def test_shifted_group_has_a_shifted_counterpart(pairs, J, c):
    values = torch.tensor([v for v, _ in pairs], dtype=torch.float64)
    assume(values.max() - values.min() > .01)
    scores, s = torch.cat([values, values + c]), torch.arange(2 * len(values)) // len(values)
    cdf = group_cdf(scores, s, J)
    width = float(cdf.eta[1] - cdf.eta[0])
    tau = (torch.arange(len(values), dtype=torch.float64) + .5) / len(values)
    shift = cdf.quantile(tau, 1) - cdf.quantile(tau, 0)
    assert ((shift - c).abs() <= 2 * width + 1e-12).all()


def scan(cdf, f, g):
    "cor of one score by its definition, in rational numbers."
    J, eta = cdf.n_bins, [Fraction(v) for v in cdf.eta.tolist()]
    below = [[0, *cdf.counts[k].cumsum(0).tolist()] for k in (0, 1)]
    H = [[Fraction(c, int(cdf.n[k])) for c in below[k]] for k in (0, 1)]
    f, j = Fraction(f), next((j for j in range(J) if eta[j] <= f < eta[j + 1]), J - 1)
    tau = H[g][j] + (f - eta[j]) / (eta[j + 1] - eta[j]) * (H[g][j + 1] - H[g][j])
    other = H[1 - g]
    k = next((k for k in range(J) if other[k] <= tau < other[k + 1]), None)
    if k is None:
        k = next(k for k in range(J) if other[k] < tau <= other[k + 1])
    return tau, float(eta[k] + (tau - other[k]) / (other[k + 1] - other[k]) * (eta[k + 1] - eta[k]))


@given(both, n_bins)
@settings(max_examples=100)  # a guard of tests/mutants.py
def test_cor_is_the_scan_in_rational_numbers(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J, lo=0, hi=1)
    columns = scores, s, cdf.at(scores, s), cdf.cor(scores, s)
    for f, g, level, cor in zip(*(column.tolist() for column in columns)):
        tau, want = scan(cdf, f, g)
        assert math.isclose(level, tau, rel_tol=1e-12, abs_tol=1e-15)
        others = [0, *cdf.counts[1 - g].cumsum(0).tolist()]
        distance = min(abs(tau - Fraction(c, int(cdf.n[1 - g]))) for c in others)
        if distance == 0 and level != float(tau) or 0 < distance < 1e-12:
            continue  # rounding may choose the other end of a gap
        assert math.isclose(cor, want, rel_tol=1e-9, abs_tol=1e-9)


@given(both, n_bins)
def test_bin_count_counts_neighbours(pairs, J):
    scores, s = tensors(pairs)
    cdf = group_cdf(scores, s, J)
    j = bin_index(scores, cdf.eta)
    neighbours = ((j[:, None] == j) & (s[:, None] == s)).sum(1)
    assert torch.equal(cdf.bin_count(scores, s), neighbours) and neighbours.min() >= 1
    assert_close(cdf.bin_mass(scores, s), cdf.H[s, j + 1] - cdf.H[s, j], rtol=1e-9, atol=0)


@given(both, n_bins)
def test_cost_is_symmetric_and_not_negative(pairs, J):
    scores, s = tensors(pairs)
    value = group_cdf(scores, s, J).w2()
    assert value >= 0 and torch.equal(value, group_cdf(scores, 1 - s, J).w2())


@pytest.mark.parametrize("n_tau", [1, 2, 7])
def test_levels_are_midpoints(n_tau):
    f, s = sample()
    cdf = group_cdf(f, s, 100)
    tau = [(k + .5) / n_tau for k in range(n_tau)]
    want = sum(float(cdf.quantile(t, 0) - cdf.quantile(t, 1)) ** 2 for t in tau) / n_tau
    assert math.isclose(cdf.w2(n_tau), want, rel_tol=1e-12)


@pytest.mark.parametrize("n_0, n_1", [(1, 1), (7, 13), (300, 700), (500, 500)])
def test_cost_approaches_pot(n_0, n_1):
    f, s = sample(n_0, n_1)
    exact = ot.wasserstein_1d(f[s == 0].numpy(), f[s == 1].numpy(), p=2)
    error = [abs(float(group_cdf(f, s, J).w2() / exact - 1)) for J in (500, 50_000)]
    assert error[0] < .02 and error[1] < 3e-4


def test_derivative_of_h_estimates_the_density():
    f, s = sample(200_000, 10)
    cdf = group_cdf(f, s, 50, lo=0, hi=1)
    x = torch.tensor([.21, .41, .61], dtype=torch.float64)
    assert_close(cdf.bin_mass(x, torch.zeros(3)) * 50, 12 * x * (1 - x) ** 2, rtol=.03, atol=0)


@dtypes
def test_dtype_is_kept_and_input_untouched(dtype):
    f, s = (v.clone() for v in sample())
    f = f.to(dtype)
    kept_f, kept_s = f.clone(), s.clone()
    cdf = group_cdf(f, s, 100)
    wide = torch.promote_types(dtype, torch.float32)
    assert cdf.cor(f, s).dtype == dtype and cdf.cor(f, s).device == f.device
    assert cdf.eta.dtype == cdf.H.dtype == cdf.w2().dtype == wide
    assert cdf.at(f, s).dtype == cdf.bin_mass(f, s).dtype == wide
    assert torch.equal(f, kept_f) and torch.equal(s, kept_s)
    double = group_cdf(f.double(), s, 100)  # the same numbers in more digits
    assert_close(cdf.w2().double(), double.w2(), rtol=2e-3, atol=0)


def test_float32_agrees_with_float64_on_a_fixed_grid():
    f, s = sample(500, 500)
    a, b = (group_cdf(f.float().to(d), s, 128, lo=0, hi=1) for d in (torch.float32, torch.float64))
    assert torch.equal(a.counts, b.counts)  # knots k/128 are exact in both
    assert_close(a.w2().double(), b.w2(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("cast", [torch.bool, torch.uint8, torch.int32, torch.float32])
def test_groups_of_any_dtype(cast):
    f, s = sample()
    assert torch.equal(group_cdf(f, s.to(cast), 50).counts, group_cdf(f, s, 50).counts)
    cdf = group_cdf(f, s, 50)
    assert torch.equal(cdf.cor(f, s.to(cast)), cdf.cor(f, s))


def test_shapes_strides_and_gradients():
    f, s = sample()
    cdf = group_cdf(f, s, 50)
    column = group_cdf(f[:, None].requires_grad_(), s[:, None], 50)
    assert torch.equal(column.counts, cdf.counts) and not column.eta.requires_grad
    spread = torch.stack([f, -f], 1)[:, 0]
    assert not spread.is_contiguous() and torch.equal(cdf.cor(spread, s), cdf.cor(f, s))
    square = f.view(20, 10)
    assert torch.equal(cdf.cor(square, s.view(20, 10)), cdf.cor(f, s).view(20, 10))
    assert cdf.quantile(.5, 0).shape == () and cdf.quantile(torch.rand(2, 3), 1).shape == (2, 3)
    assert not cdf.cor(f.clone().requires_grad_(), s).requires_grad


@pytest.mark.parametrize("value", [0., .4, -3.])
@pytest.mark.parametrize("J", [1, 8, 500])
def test_constant_scores(value, J):
    f, s = torch.full((5,), value), torch.tensor([0, 0, 1, 1, 1])
    cdf = group_cdf(f, s, J)
    assert torch.equal(cdf.cor(f, s), f) and cdf.w2() == 0
    assert cdf.bin_count(f, s).tolist() == [2, 2, 3, 3, 3]
    assert cdf.at(f, s).isfinite().all() and (cdf.quantile([0, .3, 1], 1) == value).all()


def test_scores_closer_than_the_grid_can_resolve():
    f = torch.tensor([.5, torch.nextafter(torch.tensor(.5), torch.tensor(1.)), .5])
    cdf = group_cdf(f, torch.tensor([0, 0, 1]), 500)
    assert cdf.cor(f, torch.tensor([0, 0, 1])).isfinite().all()
    assert cdf.w2().isfinite() and cdf.n.tolist() == [2, 1]


def test_one_score_per_group_and_one_bin():
    f, s = torch.tensor([.2, .6]), torch.tensor([0, 1])
    cdf = group_cdf(f, s, 1)
    assert cdf.counts.tolist() == [[1], [1]] and cdf.w2() == 0  # one bin cannot tell them apart
    assert_close(group_cdf(f, s, 1000).w2(), torch.tensor(.16), rtol=.01, atol=0)


def test_ends_of_the_grid_have_bins():
    f, s = torch.tensor([0., .5, 1., 0., 1.]), torch.tensor([0, 0, 0, 1, 1])
    cdf = group_cdf(f, s, 4)
    assert cdf.counts.tolist() == [[1, 0, 1, 1], [1, 0, 0, 1]]


def test_unknown_scores_can_have_an_empty_bin():
    cdf = group_cdf(torch.tensor([.1, .9]), torch.tensor([0, 1]), 10, lo=0, hi=1)
    assert cdf.bin_count(torch.tensor([.5]), torch.tensor([0])).tolist() == [0]


def test_a_part_may_lack_a_group():
    f, s = torch.tensor([.1, .4, .6]), torch.tensor([0, 0, 1])
    a, b = group_cdf(f[:2], s[:2], 10, lo=0, hi=1), group_cdf(f[2:], s[2:], 10, lo=0, hi=1)
    assert a.n.tolist() == [2, 0] and torch.equal((a + b).H, group_cdf(f, s, 10, lo=0, hi=1).H)
    assert repr(a + b) == "GroupCDF(n_0=2, n_1=1, n_bins=10, lo=0, hi=1)"


ok, ok_s, one_group = torch.tensor([.2, .6]), torch.tensor([0, 1]), torch.tensor([0, 0])
nan, inf = torch.tensor([.2, math.nan]), torch.tensor([.2, math.inf])
ERRORS = {
    "is empty": lambda: group_cdf(torch.tensor([]), torch.tensor([])),
    "1 NaN or infinite of 2": lambda: group_cdf(nan, ok_s),
    "NaN or infinite": lambda: group_cdf(inf, ok_s, lo=0, hi=1),
    "one group per score": lambda: group_cdf(ok, torch.tensor([0])),
    "one group per score ": lambda: group_cdf(ok[:, None], ok_s),
    "0 and 1 only": lambda: group_cdf(ok, torch.tensor([1, 2])),
    "0 and 1 only ": lambda: group_cdf(ok, nan),
    "floating-point": lambda: group_cdf(torch.tensor([0, 1]), ok_s),
    "whole number of at least 1, not 0": lambda: group_cdf(ok, ok_s, 0),
    "whole number of at least 1, not 2.5": lambda: group_cdf(ok, ok_s, 2.5),
    "lo <= hi": lambda: group_cdf(ok, ok_s, lo=1, hi=0),
    "must be finite": lambda: group_cdf(ok, ok_s, lo=-math.inf),
    "choose `lo` and `hi`": lambda: group_cdf(ok, ok_s, lo=.3),
    "choose `lo` and `hi` ": lambda: group_cdf(ok, ok_s).cor(torch.tensor([.7]), torch.tensor([0])),
    "NaN or infinite ": lambda: group_cdf(ok, ok_s).cor(nan, ok_s),
    "Group 0 has no score": lambda: group_cdf(ok, torch.tensor([1, 1])).quantile(.5, 0),
    "Group 1 has no score": lambda: group_cdf(ok, one_group).cor(ok, one_group),
    "Group 1 has no score ": lambda: group_cdf(ok, torch.tensor([0, 0])).w2(),
    "between 0 and 1": lambda: group_cdf(ok, ok_s).quantile([.5, 1.1], 0),
    "between 0 and 1 ": lambda: group_cdf(ok, ok_s).quantile(math.nan, 0),
    "`side` must be": lambda: group_cdf(ok, ok_s).quantile(.5, 0, "center"),
    "`n_tau` must be": lambda: group_cdf(ok, ok_s).w2(0),
    "grids differ": lambda: group_cdf(ok, ok_s) + group_cdf(ok + .1, ok_s),
    "grids differ ": lambda: group_cdf(ok, ok_s, 10) + group_cdf(ok, ok_s, 20),
    "grids differ  ": lambda: group_cdf(ok, ok_s, 2, 0, 1) + group_cdf(ok.double(), ok_s, 2, 0, 1),
}


@pytest.mark.parametrize("words", ERRORS)
def test_errors_are_sentences(words):
    with pytest.raises(ValueError) as e:
        ERRORS[words]()
    text = str(e.value)
    assert words.strip() in text and text.endswith(".") and len(text) > 25


def test_frozen():
    cdf = group_cdf(ok, ok_s)
    assert isinstance(cdf, GroupCDF)
    with pytest.raises(AttributeError):
        cdf.counts = cdf.counts
