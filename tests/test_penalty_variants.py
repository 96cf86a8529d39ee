"""The penalty's variants: errors, own functions, given labels, labelled references, exponent 1."""
import math
import warnings

import numpy as np
import ot
import pytest
import torch
from fairw2_nb.penalty.gradients import exact_gradient, paper_gradient
from fairw2_nb.penalty.loss import WassersteinPenalty, wasserstein_penalty
from fairw2_nb.transport.exact import wasserstein_1d
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from torch.testing import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:The use of `x.T`") # from inside POT
exponents, labels = st.sampled_from([1, 2]), st.sampled_from([0, 1])
kinds = st.sampled_from([dict(on="error"), dict(given=0), dict(given=1), dict(given="each"),
                         dict(on="error", given=1), dict(on="error", given="each")])


def absolute(f, y):
    "The absolute error, as a function of one's own."
    return (f - y).abs()


@st.composite
def batches(draw, low=4, high=60, complete=False):
    "Scores with frequent ties, groups and labels; `complete`: both groups occur with both labels."
    n = draw(st.integers(low, high))
    f = torch.tensor(draw(st.lists(st.integers(0, 64), min_size=n, max_size=n))).double() / 64
    bits = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    s, y = torch.tensor(draw(bits)), torch.tensor(draw(bits))
    if complete:
        s[:4], y[:4] = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    else:
        s[:2] = torch.tensor([0, 1])
    return f, s, y


def value_and_grad(penalty, f, s, y, **kwargs):
    "The penalty and its gradient with respect to the scores."
    z = f.clone().requires_grad_()
    value = penalty(z, s, y, **kwargs)
    return value.detach(), torch.autograd.grad(value, z)[0]


def slopes(cost, f, step=1e-6):
    "Central differences of `cost` in each score."
    moves = step * torch.eye(len(f), dtype=torch.float64)
    found = [(cost(f + move) - cost(f - move)) / (2 * step) for move in moves]
    return torch.tensor(found, dtype=torch.float64)


def between(v, s, p=2):
    "W_p^p of the values `v` between the two groups."
    return wasserstein_1d(v[s == 0], v[s == 1], p)


# Errors and functions of one's own


@given(batches(), exponents)
def test_on_error_is_the_distance_of_squared_errors(batch, p):
    f, s, y = batch
    assert_close(WassersteinPenalty(p=p, on="error")(f, s, y), between((f - y) ** 2, s, p))


@given(batches(), exponents, st.sampled_from(["exact", "paper"]))
def test_on_error_gradient_is_the_chain_rule(batch, p, grad):
    f, s, y = batch
    e = (f - y) ** 2
    if grad == "exact":
        of_errors = exact_gradient(e, s.bool(), len(f), p)[1]
    else:
        of_errors = paper_gradient(e, s.bool(), len(f), p, 37)
    _, g = value_and_grad(WassersteinPenalty(p=p, on="error", grad=grad, n_bins=37), f, s, y)
    assert_close(g, 2 * (f - y) * of_errors, rtol=1e-10, atol=1e-14)


@given(st.integers(2, 25), st.integers(2, 25), st.integers(0, 10_000), exponents)
def test_on_error_against_finite_differences(n, m, seed, p):
    rng = np.random.default_rng(seed)
    f, s = torch.tensor(rng.random(n + m)), torch.arange(n + m) >= n
    y = torch.tensor(rng.random(n + m) < .5).double()
    e = ((f - y) ** 2).sort().values
    assume(e.diff().min() > 1e-5) # no two errors change places within a step

    def cost(f):
        e = (f - y) ** 2
        if p == 1:
            return wasserstein_distance(e[~s], e[s])
        return ot.wasserstein_1d(e[~s], e[s], p=2).item()
    _, g = value_and_grad(WassersteinPenalty(p=p, on="error"), f, s, y)
    assert_close(g, slopes(cost, f), rtol=1e-5, atol=1e-8)


@given(batches(), exponents)
def test_own_function(batch, p):
    f, s, y = batch
    value, g = value_and_grad(WassersteinPenalty(p=p, on=absolute), f, s, y)
    assert_close(value, between((f - y).abs(), s, p))
    assert_close(g, (f - y).sign() * exact_gradient((f - y).abs(), s.bool(), len(f), p)[1])


@given(batches())
def test_squared_error_as_own_function_is_on_error(batch):
    own = WassersteinPenalty(on=lambda f, y: (f - y) ** 2)
    on_error = value_and_grad(WassersteinPenalty(on="error"), *batch)
    for a, b in zip(value_and_grad(own, *batch), on_error):
        assert_close(a, b)


@given(batches())
def test_swapping_labels_and_mirroring_scores_changes_nothing(batch):
    f, s, y = batch
    value, g = value_and_grad(WassersteinPenalty(on="error"), f, s, y)
    mirrored, h = value_and_grad(WassersteinPenalty(on="error"), 1 - f, s, 1 - y)
    assert_close(mirrored, value)
    assert_close(h, -g)


@given(batches())
def test_perfect_scores_have_no_error_distance(batch):
    _, s, y = batch
    value, g = value_and_grad(WassersteinPenalty(on="error"), y.double(), s, y)
    assert value == 0 and not g.any()


# Given labels


@given(batches(complete=True), labels, exponents, st.sampled_from(["score", "error", absolute]))
def test_given_is_the_penalty_of_the_part(batch, k, p, on):
    f, s, y = batch
    part = y == k
    value, g = value_and_grad(WassersteinPenalty(p=p, on=on, given=k), f, s, y)
    alone, h = value_and_grad(WassersteinPenalty(p=p, on=on), f[part], s[part], y[part])
    assert_close(value, alone)
    assert_close(g[part], h)
    assert not g[~part].any()


@given(batches(complete=True), exponents, st.sampled_from(["exact", "paper"]))
def test_given_each_is_the_mean(batch, p, grad):
    penalties = (WassersteinPenalty(p=p, given=k, grad=grad) for k in ("each", 0, 1))
    each, *parts = (value_and_grad(penalty, *batch) for penalty in penalties)
    for i in range(2):
        assert_close(each[i], (parts[0][i] + parts[1][i]) / 2)


@given(batches(complete=True), exponents)
def test_absolute_errors_given_each_label_are_scores_given_each_label(batch, p):
    a = value_and_grad(WassersteinPenalty(p=p, on=absolute, given="each"), *batch)
    b = value_and_grad(WassersteinPenalty(p=p, given="each"), *batch)
    assert_close(a[0], b[0])
    f, _, y = batch
    inner = f != y # at f = y the absolute error has a kink
    assert_close(a[1][inner], b[1][inner])


@given(batches(complete=True), kinds)
def test_label_and_group_types_do_not_matter(batch, kind):
    f, s, y = batch
    expected = value_and_grad(WassersteinPenalty(**kind), f, s, y)
    for cast in (torch.Tensor.bool, torch.Tensor.float, torch.Tensor.double,
                 lambda v: v[:, None], torch.Tensor.tolist, torch.Tensor.numpy):
        for a, b in zip(value_and_grad(WassersteinPenalty(**kind), f, cast(s), cast(y)), expected):
            assert_close(a, b)
    z = f[:, None].clone().requires_grad_()
    assert_close(torch.autograd.grad(WassersteinPenalty(**kind)(z, s, y), z)[0][:, 0], expected[1])


@given(batches(complete=True), kinds)
def test_input_is_untouched(batch, kind):
    before, ref = [v.clone() for v in batch], [v.clone() for v in batch]
    penalty = WassersteinPenalty(**kind, reference=20)
    value_and_grad(penalty, *batch), value_and_grad(penalty, *batch, ref=tuple(ref))
    for a, b, c in zip(batch, before, ref):
        assert torch.equal(a, b) and torch.equal(a, c)


# References with labels


@given(batches(complete=True), batches(complete=True), kinds, exponents)
def test_reference_is_merged_by_label_and_group(batch, ref, kind, p):
    "The value is that of batch and reference together; the gradient has the batch's own counts."
    (f, s, y), penalty = batch, WassersteinPenalty(p=p, reference=0, **kind)
    merged = [torch.cat([a, b]) for a, b in zip(batch, ref)]
    value, g = value_and_grad(penalty, *batch, ref=ref)
    whole, h = value_and_grad(penalty, *merged)
    assert_close(value, whole)
    for group in (0, 1):
        for label in ((0, 1) if "given" in kind else (None,)):
            mine, all_ = s == group, merged[1] == group
            if label is not None:
                mine, all_ = mine & (y == label), all_ & (merged[2] == label)
            assert_close(g[mine], h[: len(f)][mine] * all_.sum() / mine.sum())


@given(batches(complete=True), batches(complete=True), kinds)
def test_reference_gets_no_gradient(batch, ref, kind):
    z = ref[0].clone().requires_grad_()
    f = batch[0].clone().requires_grad_()
    WassersteinPenalty(**kind)(f, *batch[1:], ref=(z, *ref[1:])).backward()
    assert z.grad is None and f.grad is not None


@given(batches(complete=True), batches(complete=True), kinds, exponents,
       st.sampled_from(["exact", "paper"]))
def test_ring_buffer_is_an_explicit_reference(first, second, kind, p, grad):
    (f0, s0, y0), (f1, s1, y1) = ((f.float(), s, y) for f, s, y in (first, second))
    options = dict(p=p, grad=grad, n_bins=50, **kind)
    ringed = WassersteinPenalty(**options, reference=200)
    ringed(f0, s0, y0)
    explicit = value_and_grad(WassersteinPenalty(**options), f1, s1, y1, ref=(f0, s0, y0))
    for a, b in zip(value_and_grad(ringed, f1, s1, y1), explicit):
        assert torch.equal(a, b)
    scores, _, remembered = ringed.ring.filled()
    assert_close(scores, torch.cat([f0, f1]))
    assert_close(remembered, torch.cat([y0, y1]).float())


def test_full_ring_buffer_forgets_the_oldest_with_their_labels():
    torch.manual_seed(0)
    f, s, y = torch.rand(90), torch.arange(90) % 2, torch.arange(90) // 2 % 2
    ringed, plain = WassersteinPenalty(given="each", reference=40), WassersteinPenalty(given="each")
    for k in (0, 30, 60):
        at, old = slice(k, k + 30), slice(max(0, k - 40), k)
        expected = plain(f[at], s[at], y[at], ref=(f[old], s[old], y[old]) if k else None)
        assert_close(ringed(f[at], s[at], y[at]), expected)


def test_explicit_reference_takes_the_place_of_the_buffer():
    torch.manual_seed(0)
    f, s, y = torch.rand(40), torch.arange(40) % 2, torch.arange(40) // 2 % 2
    ringed = WassersteinPenalty(on="error", reference=100)
    ringed(torch.rand(40), s, y)
    plain = WassersteinPenalty(on="error")
    assert_close(ringed(f, s, y, ref=(f / 2, s, y)), plain(f, s, y, ref=(f / 2, s, y)))


@pytest.mark.parametrize("kind", [dict(on="error"), dict(given=1)])
def test_a_group_that_is_only_in_the_reference(kind):
    f, y = torch.tensor([.2, .7]), torch.tensor([1, 1])
    s, ref = torch.tensor([0, 0]), (torch.tensor([.9]), [1], [1])
    value, g = value_and_grad(WassersteinPenalty(**kind), f, s, y, ref=ref)
    v, r = ((f - 1) ** 2, .01) if kind.get("on") else (f, .9)
    assert_close(value, ((v - r) ** 2).mean())
    assert_close(g, (v - r) * (2 * (f - 1) if kind.get("on") else 1))


# Batches that cannot be compared, and mistakes


def warned(penalty, f, s, y, **kwargs):
    "Value, gradient and warnings of a call."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return *value_and_grad(penalty, f, s, y, **kwargs), caught


f4, s4 = torch.tensor([.1, .4, .6, .9]), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize("y, options", [
    ([0, 0, 0, 0], dict(given=1)), ([1, 1, 1, 1], dict(given=0)),
    ([1, 0, 1, 0], dict(given=1)), ([0, 0, 0, 0], dict(on="error", given=1))])
def test_label_or_group_absent(y, options):
    "Zero, connected to the graph, with one warning."
    value, g, caught = warned(WassersteinPenalty(**options), f4, s4, y)
    assert value == 0 and torch.equal(g, torch.zeros(4))
    assert len(caught) == 1 and "penalty is 0" in str(caught[0].message)


def test_given_each_with_one_label_is_half_of_that_label():
    value, g, caught = warned(WassersteinPenalty(given="each"), f4, s4, [1, 1, 1, 1])
    alone, h = value_and_grad(WassersteinPenalty(given=1), f4, s4, [1, 1, 1, 1])
    assert_close(value, alone / 2)
    assert_close(g, h / 2)
    assert len(caught) == 1


def test_a_batch_that_cannot_be_compared_is_remembered():
    ringed = WassersteinPenalty(given=1, reference=8)
    warned(ringed, f4, torch.zeros(4), [1, 1, 1, 1])
    value, _, caught = warned(ringed, f4, torch.ones(4), [1, 1, 1, 1])
    assert value == 0 and not caught # the same scores in both groups


@pytest.mark.parametrize("call, words", [
    (lambda: WassersteinPenalty(on="error")(f4, s4), "`y` is missing"),
    (lambda: WassersteinPenalty(given=1)(f4, s4), "`y` is missing"),
    (lambda: WassersteinPenalty(on=absolute)(f4, s4), "`y` is missing"),
    (lambda: WassersteinPenalty(on="error")(f4, s4, s4, ref=(f4, s4)), "`y` is missing"),
    (lambda: WassersteinPenalty(on="error")(f4, s4, s4[:3]), "shape"),
    (lambda: WassersteinPenalty(given=1)(f4, s4, torch.zeros(4, 2)), "shape"),
    (lambda: WassersteinPenalty(given=1)(f4, s4[:3], s4), "one entry per score"),
    (lambda: WassersteinPenalty(on="error")(f4, s4, s4, ref=(f4, s4, s4[:2])), "shape"),
    (lambda: WassersteinPenalty(on="error")(f4, s4, s4, ref=(f4, s4[:2], s4)), "one entry per"),
    (lambda: WassersteinPenalty(on="error")(f4, s4, s4, ref=f4), "`ref` must be"),
    (lambda: WassersteinPenalty(on=lambda f, y: f.mean())(f4, s4, s4), "one value per score"),
    (lambda: WassersteinPenalty(on=lambda f, y: f[:2])(f4, s4, s4), "one value per score"),
    (lambda: WassersteinPenalty(on="error")(f4 / 0, s4, s4), "NaN or infinite"),
    (lambda: WassersteinPenalty(on="errors"), "on ="),
    (lambda: WassersteinPenalty(on=None), "on ="),
    (lambda: WassersteinPenalty(given=2), "given ="),
    (lambda: WassersteinPenalty(given="both"), "given ="),
])
def test_mistakes_are_answered_in_words(call, words):
    with pytest.raises(ValueError, match="(?s).*" + words):
        call()


@pytest.mark.parametrize("options", [dict(on="error"), dict(given="each"), dict(on=absolute, p=1),
                                     dict(on="error", grad="paper")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_small_dtypes(options, dtype):
    torch.manual_seed(0)
    f, s, y = torch.rand(200).to(dtype), torch.arange(200) % 3 == 0, torch.rand(200) < .5
    value, g = value_and_grad(WassersteinPenalty(**options), f, s, y.float().to(dtype))
    assert value.dtype == g.dtype == dtype
    wide, h = value_and_grad(WassersteinPenalty(**options), f.double(), s, y.double())
    assert abs(value.double() / wide - 1) < 20 * torch.finfo(dtype).eps
    if options.get("grad") != "paper": # there, a rounded error may fall into another bin
        # p = 1: a rounded tie may turn a sign
        near = .3 if options.get("p") == 1 else 20 * torch.finfo(dtype).eps
        assert (g.double() - h).norm() < near * h.norm()


def test_compiles():
    torch.manual_seed(0)
    s, y = torch.arange(30) % 2, torch.arange(30) // 2 % 2
    for options in (dict(on="error"), dict(given="each"), dict(given=1)):
        penalty = WassersteinPenalty(**options)
        z = torch.randn(30, requires_grad=True)
        compiled = torch.compile(lambda z: penalty(z.sigmoid(), s, y), backend="eager")
        mine = torch.autograd.grad(compiled(z), z)[0]
        assert_close(mine, torch.autograd.grad(penalty(z.sigmoid(), s, y), z)[0])


# Exponent 1


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10_000))
def test_w1_against_finite_differences_of_scipy(n, m, seed):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randperm(500, generator=generator)[: n + m].double() / 500 # no ties
    s = torch.arange(n + m) >= n
    value, g = value_and_grad(lambda f, s, y: wasserstein_penalty(f, s, p=1), z, s, None)
    cost = lambda v: wasserstein_distance(v[~s], v[s])
    assert math.isclose(value, cost(z), rel_tol=1e-10)
    assert_close(g, slopes(cost, z), rtol=1e-6, atol=1e-8)


@given(batches())
def test_w1_pull_is_bounded_and_homogeneous(batch):
    f, s, _ = batch
    value, g = value_and_grad(lambda f, s, y: wasserstein_penalty(f, s, p=1), *batch)
    assert (g.abs() * s.bincount()[s] <= 1 + 1e-12).all()
    assert abs(g.sum()) < 1e-12
    assert_close(g @ f, value, rtol=1e-10, atol=1e-13)


@given(batches())
def test_w1_run_of_ties_moved_together(batch):
    "The total pull on equal scores of a group is the mean of both slopes as they move together."
    f, s, _ = batch
    _, g = value_and_grad(lambda f, s, y: wasserstein_penalty(f, s, p=1), *batch)
    cost = lambda v: wasserstein_distance(v[s == 0], v[s == 1])
    run = (s == s[0]) & (f == f[0])
    slope = (cost(f + 1e-6 * run) - cost(f - 1e-6 * run)) / 2e-6
    assert math.isclose(g[run].sum(), slope, rel_tol=1e-6, abs_tol=1e-8)


@given(st.integers(1, 60), st.integers(0, 1000))
def test_w1_signs_are_whole_for_equal_sizes(n, seed):
    z = torch.rand(2 * n, generator=torch.Generator().manual_seed(seed)).double()
    g = exact_gradient(z, torch.arange(2 * n) >= n, 2 * n, p=1)[1] * n
    assert_close(g.abs(), torch.ones_like(g))


@given(batches(low=20), st.integers(1, 80))
def test_w1_printed_gradient_has_bin_counts_below_and_signs_above(batch, n_bins):
    f, s, _ = batch
    g = paper_gradient(f, s.bool(), len(f), 1, n_bins)
    whole = 1 / (g[g != 0].abs() * n_bins) # the count of the group in the bin
    assert_close(whole, whole.round(), rtol=1e-9, atol=0)
    assert (whole >= 1 - 1e-9).all()
