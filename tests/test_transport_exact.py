"""Properties of exact transport, against POT, SciPy, rational arithmetic and finite differences."""
import math
from fractions import Fraction

import numpy as np
import ot
import pytest
import torch
from fairw2_nb.basics import checks
from fairw2_nb.transport import inputs
from fairw2_nb.transport.exact import share_ties, transport_map, wasserstein_1d
from fairw2_nb.transport.sorting import rank_cells
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from torch.testing import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:The use of `x.T`")
sizes = st.integers(1, 60)
values = st.integers(-50, 50).map(lambda k: k / 16) # ties are frequent, and sums are exact
samples = st.lists(values, min_size=1, max_size=60)


def grads(x, y, p=2, **weights):
    "Value and both gradients of wasserstein_1d in double precision."
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, y))
    value = wasserstein_1d(x, y, p, **weights)
    return value.item(), *torch.autograd.grad(value, (x, y))


def rational(x, y, p):
    "W_p^p by the definition, in rational numbers."
    x, y, n, m = sorted(map(Fraction, x)), sorted(map(Fraction, y)), len(x), len(y)
    knots = sorted({Fraction(i, n) for i in range(n + 1)} | {Fraction(j, m) for j in range(m + 1)})
    gaps = [abs(x[math.floor(a * n)] - y[math.floor(a * m)]) for a in knots[:-1]]
    return float(sum((b - a) * gap ** p for a, b, gap in zip(knots, knots[1:], gaps)))


@given(samples, samples, st.sampled_from([1, 2, 3]))
def test_value_is_the_definition(x, y, p):
    value = wasserstein_1d(x, y, p).item()
    assert math.isclose(value, rational(x, y, p), rel_tol=1e-12, abs_tol=1e-300)


@given(samples, samples)
def test_value_agrees_with_scipy(x, y):
    value = wasserstein_1d(x, y, 1).item()
    assert math.isclose(value, wasserstein_distance(x, y), rel_tol=1e-10, abs_tol=1e-12)


@given(samples, samples, st.sampled_from([1, 1.5, 2, 3]))
def test_symmetry_zero_sum_and_euler(x, y, p):
    v, gx, gy = grads(x, y, p)
    v_, gy_, gx_ = grads(y, x, p)
    assert v >= 0 and math.isclose(v, v_, rel_tol=1e-12, abs_tol=1e-15)
    assert_close(gx, gx_, rtol=1e-10, atol=1e-13)
    assert_close(gy, gy_, rtol=1e-10, atol=1e-13)
    scale = 1 + v
    assert abs(gx.sum() + gy.sum()) < 1e-12 * scale
    inner = gx @ torch.tensor(x, dtype=torch.float64) + gy @ torch.tensor(y, dtype=torch.float64)
    assert math.isclose(inner, p * v, rel_tol=1e-10, abs_tol=1e-12)


@given(samples, samples, st.floats(-3, 3), st.floats(.1, 5))
def test_translation_and_scale(x, y, c, a):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    v = wasserstein_1d(x, y)
    assert_close(wasserstein_1d(x + c, y + c), v, rtol=1e-9, atol=1e-10)
    assert_close(wasserstein_1d(a * x, a * y), a * a * v, rtol=1e-9, atol=1e-10)
    assert math.isclose(wasserstein_1d(x, x + c).item(), c * c, rel_tol=1e-9, abs_tol=1e-12)


@given(samples, st.sampled_from([1, 2]))
def test_identical_samples_give_exactly_zero(x, p):
    v, gx, gy = grads(x, x, p)
    assert v == 0 and not gx.any() and not gy.any()


@given(samples, samples, st.sampled_from([1, 2, 3]))
def test_equal_points_get_equal_gradients(x, y, p):
    _, gx, gy = grads(x, y, p)
    for z, g in ((x, gx), (y, gy)):
        for v in set(z):
            same = g[torch.tensor(z) == v]
            assert (same == same[0]).all()


@given(sizes, sizes, st.integers(0, 10_000), st.sampled_from([1, 2]))
def test_against_pot_without_ties(n, m, seed, p):
    z = torch.randperm(2000, generator=torch.Generator().manual_seed(seed))[: n + m].double() / 2000
    v, gx, gy = grads(z[:n].tolist(), z[n:].tolist(), p)
    x, y = z[:n].clone().requires_grad_(), z[n:].clone().requires_grad_()
    theirs = ot.wasserstein_1d(x, y, p=p)
    assert math.isclose(v, theirs.item(), rel_tol=1e-10)
    for mine, other in zip((gx, gy), torch.autograd.grad(theirs, (x, y))):
        assert_close(mine, other, rtol=1e-8, atol=1e-11)


weighted = st.lists(st.tuples(values, st.integers(0, 5)), min_size=1, max_size=30)


@given(weighted, weighted)
def test_integer_weights_are_repetitions(xu, yv):
    (x, u), (y, v) = zip(*xu), zip(*yv)
    if not sum(u) or not sum(v):
        with pytest.raises(ValueError, match="not all zero"):
            wasserstein_1d(x, y, x_weights=u, y_weights=v)
        return
    value, gx, _ = grads(x, y, x_weights=u, y_weights=v)
    long_x, long_y = np.repeat(x, u).tolist(), np.repeat(y, v).tolist()
    whole, gx_long, _ = grads(long_x, long_y)
    assert math.isclose(value, whole, rel_tol=1e-9, abs_tol=1e-12)
    at = torch.tensor(np.repeat(np.arange(len(x)), u))
    collected = torch.zeros(len(x), dtype=torch.float64).index_add_(0, at, gx_long)
    assert_close(gx, collected, rtol=1e-8, atol=1e-11)


@given(sizes, sizes)
def test_cells_are_a_partition(n, m):
    i, j, width = rank_cells(n, m)
    assert (width >= 0).all()
    assert (np.bincount(i, width, n) == m).all() and (np.bincount(j, width, m) == n).all()


@given(samples, samples, st.sampled_from([1, 2, 3]), st.booleans())
def test_other_devices_take_the_same_road(x, y, p, weighted):
    "The torch operations used off the CPU give what NumPy gives on it."
    weights = {}
    if weighted:
        weights = dict(x_weights=range(1, len(x) + 1), y_weights=range(1, len(y) + 1))
    with pytest.MonkeyPatch.context() as patch:
        on_cpu = grads(x, y, p, **weights)
        for module in (inputs, checks): # where tensors become arrays
            patch.setattr(module, "numpy_on_cpu", lambda z: z.detach())
        elsewhere = grads(x, y, p, **weights)
    for a, b in zip(on_cpu, elsewhere):
        assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_gradcheck():
    torch.manual_seed(0)
    x, y = (torch.rand(n, dtype=torch.float64, requires_grad=True) for n in (7, 11))
    for p in (1, 1.5, 2, 3):
        assert torch.autograd.gradcheck(lambda a, b: wasserstein_1d(a, b, p), (x, y))


@pytest.mark.parametrize("n", [1_000, 100_000])
@pytest.mark.parametrize("share", [.001, .3])
def test_single_precision(n, share):
    "Relative error of value and gradient at most 1e-6 against double precision."
    g = torch.Generator().manual_seed(n)
    z = torch.rand(n, generator=g).unique()
    z = z[torch.randperm(len(z), generator=g)]
    x, y = z.tensor_split([max(1, int(share * len(z)))])
    results = []
    for f, dtype in [(wasserstein_1d, torch.float32), (ot.wasserstein_1d, torch.float64)]:
        a, b = x.to(dtype).requires_grad_(), y.to(dtype).requires_grad_()
        v = f(a, b, p=2)
        results.append((v.detach().double(), torch.cat(torch.autograd.grad(v, (a, b))).double()))
    (v, g), (v0, g0) = results
    assert abs(v - v0) / v0 < 1e-6 and (g - g0).norm() / g0.norm() < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_are_kept_and_inputs_untouched(dtype):
    x, y = torch.rand(20).to(dtype).requires_grad_(), torch.rand(33).to(dtype)
    before = x.detach().clone()
    v = wasserstein_1d(x, y)
    v.backward()
    assert v.dtype == x.grad.dtype == dtype and v.isfinite() and torch.equal(x.detach(), before)
    assert transport_map(x, y).dtype == dtype


def test_map_keeps_the_mean_and_the_order():
    g = torch.Generator().manual_seed(0)
    x, y = torch.rand(101, generator=g), torch.rand(37, generator=g) * 2
    t = transport_map(x, y)
    assert_close(t.mean(), y.mean())
    assert (t[x.argsort()].diff() >= -1e-6).all()


def test_shared_ties_keep_totals():
    x = torch.tensor([1., 1., 2., 3., 3., 3.])
    g = torch.arange(6.)
    assert_close(share_ties(x, g), torch.tensor([.5, .5, 2., 4., 4., 4.]))


@pytest.mark.parametrize("call, words", [
    (lambda: wasserstein_1d([], [1.]), "is empty"),
    (lambda: wasserstein_1d([1.], [float("inf")]), "NaN or infinite"),
    (lambda: wasserstein_1d([1.], [float("nan"), 1.]), "NaN or infinite"),
    (lambda: wasserstein_1d([1.], [1.], p=.9), "at least 1"),
    (lambda: wasserstein_1d([1.], [1.], p=float("nan")), "at least 1"),
    (lambda: wasserstein_1d([[1., 2.]], [1.]), "shape"),
    (lambda: wasserstein_1d(["a"], [1.]), "numbers"),
    (lambda: wasserstein_1d([1.], [1.], x_weights=[1, 2]), "weights for"),
    (lambda: wasserstein_1d([1., 2.], [1.], x_weights=[1, -2]), "non-negative"),
    (lambda: transport_map([], [1.]), "is empty"),
])
def test_bad_input_is_answered_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
