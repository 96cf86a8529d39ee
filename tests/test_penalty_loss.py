"""The penalty: values and gradients against POT and definitions, its manners in a training loop."""
import copy
import io
import math
import subprocess
import sys
import warnings

import numpy as np
import ot
import pytest
import torch
from fairw2_nb.penalty.gradients import paper_gradient
from fairw2_nb.penalty.loss import WassersteinPenalty, wasserstein_penalty
from fairw2_nb.penalty.references import Fresh, Ring
from fairw2_nb.transport.exact import wasserstein_1d
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:The use of `x.T`")
fractions = st.integers(0, 64).map(lambda k: k / 64)
scored = st.lists(st.tuples(fractions, st.booleans()), min_size=2, max_size=300)


def call(f, s, dtype=torch.float64, **options):
    "Value and gradient of the penalty."
    z = torch.tensor(f, dtype=dtype, requires_grad=True)
    w = wasserstein_penalty(z, s, **options)
    return w.item(), torch.autograd.grad(w, z)[0]


@st.composite
def batches(draw):
    "Scores with many ties and groups, both groups present."
    f, s = zip(*draw(scored))
    assume(0 < sum(s) < len(s))
    return list(f), list(s)


@given(batches(), st.sampled_from([1, 2]))
def test_value_and_gradient(batch, p):
    f, s = batch
    x, mask = torch.tensor(f, dtype=torch.float64), torch.tensor(s)
    w, g = call(f, s, p=p)
    by_pot = ot.wasserstein_1d(x[~mask], x[mask], p=p).item()
    assert w >= 0 and math.isclose(w, by_pot, rel_tol=1e-9, abs_tol=1e-12)
    swapped, g_swapped = call(f, [not k for k in s], p=p)
    assert math.isclose(w, swapped, rel_tol=1e-12, abs_tol=1e-15)
    assert_close(g, g_swapped, rtol=1e-10, atol=1e-14)
    assert abs(g.sum()) < 1e-12 and math.isclose(g @ x, p * w, rel_tol=1e-9, abs_tol=1e-12)
    for value in set(f):
        for group in (False, True):
            same = g[(x == value) & (mask == group)]
            assert (same == same[:1]).all()


@given(st.lists(fractions, min_size=1, max_size=100), st.sampled_from([1, 2]))
def test_identical_groups_are_exactly_free(f, p):
    w, g = call(f + f, [0] * len(f) + [1] * len(f), p=p)
    assert w == 0 and not g.any()


@given(batches(), batches(), st.sampled_from([1, 2]))
def test_reference_sharpens_the_map_and_keeps_the_batch_count(batch, ref, p):
    "The gradient of the merged samples, times merged count over batch count, group by group."
    (f, s), (rf, rs) = batch, ref
    w, g = call(f, s, p=p, ref_scores=rf, ref_s=rs)
    merged, g_merged = call(f + rf, list(s) + list(rs), p=p)
    assert math.isclose(w, merged, rel_tol=1e-12)
    s_, r_ = np.array(s), np.array(rs)
    factor = np.where(s_, 1 + r_.sum() / s_.sum(), 1 + (~r_).sum() / (~s_).sum())
    assert_close(g, g_merged[: len(f)] * torch.tensor(factor), rtol=1e-9, atol=1e-13)


@given(batches(), st.integers(1, 60))
def test_paper_gradient_has_the_signs_of_the_map_and_is_finite(batch, n_bins):
    f, s = batch
    _, g = call(f, s, grad="paper", n_bins=n_bins)
    assert g.isfinite().all()


@given(batches(), st.sampled_from(["score", "error"]))
def test_gradient_is_that_of_autograd_through_pot(batch, on):
    "Where no two values tie, POT's own sorts have the same derivative."
    f, s = torch.tensor(batch[0], dtype=torch.float64), torch.tensor(batch[1])
    y = (torch.arange(len(f)) % 3 == 0).double()
    f = f + torch.linspace(.001, .002, len(f), dtype=torch.float64) # no ties
    grads = []
    for distance in (WassersteinPenalty(on=on), None):
        z = f.clone().requires_grad_()
        v = z if on == "score" else (z - y) ** 2
        assume(v.detach().unique().numel() == len(v))
        w = distance(z, s, y) if distance else ot.wasserstein_1d(v[~s], v[s], p=2)
        grads.append(torch.autograd.grad(w, z)[0])
    assert_close(*grads, rtol=1e-8, atol=1e-11)


@given(batches(), batches(), st.sampled_from([1, 2]))
def test_paper_gradient_with_a_reference_has_the_count_of_the_batch(batch, ref, p):
    "The paper's own value, with merged counts, times merged over batch count."
    f = torch.tensor(batch[0] + ref[0], dtype=torch.float64)
    s, n = torch.tensor(batch[1] + ref[1]), len(batch[0])
    factor = torch.where(s[:n], s.sum() / s[:n].sum(), (~s).sum() / (~s[:n]).sum()).double()
    own = paper_gradient(f, s, len(f), p, 30)[:n]
    assert_close(paper_gradient(f, s, n, p, 30), own * factor, rtol=1e-6, atol=1e-12)


def test_printed_over_exact_is_one_over_density():
    "Uniform scores: the density is known, so the ratio is 1 / (2 u d_eta J) inside of the bins."
    n = 40_000
    x = torch.cat([torch.linspace(0, .5, n).double(), torch.linspace(.3, 1.1, n).double()])
    s = torch.arange(2 * n) >= n
    z = x.clone().requires_grad_()
    exact = torch.autograd.grad(wasserstein_penalty(z, s), z)[0]
    printed = torch.autograd.grad(wasserstein_penalty(z, s, grad="paper", n_bins=200), z)[0]
    u = torch.where(s, 1 / .8, 1 / .5).double()
    ratio, predicted = printed / exact, 1 / 200 / (2 * u * 1.1 / 200)
    cut = ((x > .45) & (x < .55) & ~s) | ((x < .35) & s) # bins at the ends of the laws are not full
    middle = (x > .05) & (x < 1.05) & ~cut
    assert ((ratio / predicted)[middle] - 1).abs().max() < .02


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("s_dtype", [torch.bool, torch.int32, torch.int64, torch.float32,
                                     torch.uint8])
@pytest.mark.parametrize("shape", [(40,), (40, 1)])
@pytest.mark.parametrize("grad", ["exact", "paper"])
def test_dtypes_and_shapes(dtype, s_dtype, shape, grad):
    torch.manual_seed(0)
    z = torch.rand(40).to(dtype).view(shape).requires_grad_()
    s = (torch.rand(40) < .6).to(s_dtype).view(shape)
    before, s_before = z.detach().clone(), s.clone()
    w = wasserstein_penalty(z, s, grad=grad)
    (w * 7).backward()
    assert w.shape == () and w.dtype == dtype
    assert z.grad.shape == shape and z.grad.dtype == dtype and z.grad.isfinite().all()
    assert torch.equal(z.detach(), before) and torch.equal(s, s_before)
    mask, x = s.flatten().bool(), before.flatten().double()
    rtol = 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-6
    assert_close(w.double().item(), wasserstein_1d(x[~mask], x[mask]).item(), rtol=rtol, atol=0)


def test_not_contiguous_and_grad_output():
    z = torch.rand(80, 3, dtype=torch.float64, requires_grad=True)
    s = (torch.arange(240) % 3 == 0)[::3] ^ (torch.arange(80) % 2 == 0)
    (5 * wasserstein_penalty(z[:, 1], s) + wasserstein_penalty(z[:, 1], s)).backward()
    z_ = z.detach()[:, 1].clone().requires_grad_()
    wasserstein_penalty(z_, s).backward()
    assert_close(z.grad[:, 1], 6 * z_.grad)
    assert not z.grad[:, [0, 2]].any()


def test_second_derivatives_are_refused():
    z = torch.rand(10, requires_grad=True)
    with pytest.raises(RuntimeError, match="closed-form first derivative only"):
        torch.autograd.grad(wasserstein_penalty(z, [0, 1] * 5), z, create_graph=True)


def test_gradient_accumulation_autocast_and_scaling():
    net = nn.Linear(4, 1)
    x, s = torch.randn(64, 4), torch.arange(64) % 2
    penalty = WassersteinPenalty(reference=64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for part in (slice(0, 32), slice(32, 64)):
            loss = penalty(net(x[part]).sigmoid(), s[part])
            (loss * 2.0**16).backward()
    assert net.weight.grad.isfinite().all() and net.weight.grad.any()


@pytest.mark.parametrize("grad", ["exact", "paper"])
def test_compile(grad):
    torch._dynamo.reset()
    penalty, net = WassersteinPenalty(reference=20, grad=grad), nn.Linear(3, 1)
    s = torch.arange(10) % 2

    def step(x):
        return (net(x) ** 2).mean() + penalty(net(x).sigmoid(), s)
    x = torch.randn(10, 3)
    compiled = torch.compile(step, backend="eager")
    for _ in range(3):
        compiled(x).backward()
    assert net.weight.grad.isfinite().all()


def test_training_lowers_the_distance():
    "Gradient descent on free scores brings the two groups together."
    torch.manual_seed(0)
    z = torch.rand(200, requires_grad=True)
    s = torch.rand(200) < .5
    z.data[s] += .5
    start = wasserstein_penalty(z, s).item()
    for _ in range(60):
        g, = torch.autograd.grad(wasserstein_penalty(z, s), z)
        z.data -= 10 * g
    assert wasserstein_penalty(z, s).item() < 1e-2 * start


def test_missing_group_with_reference_gets_its_gradient():
    z = torch.tensor([.2, .3], requires_grad=True)
    wasserstein_penalty(z, [1, 1], ref_scores=torch.tensor([.8, .9]), ref_s=[0, 0]).backward()
    assert_close(z.grad, torch.tensor([.2 - .8, .3 - .9]))


def test_missing_group_without_reference_is_zero_with_one_warning():
    z = torch.rand(5, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        w = wasserstein_penalty(z, [1] * 5)
    assert len(caught) == 1
    assert "of group 1" in str(caught[0].message) and "reference=" in str(caught[0].message)
    assert caught[0].filename == __file__
    w.backward()
    assert w == 0 and torch.equal(z.grad, torch.zeros(5))


@pytest.mark.parametrize("f, s, value", [
    ([.5] * 6, [0, 1] * 3, 0.), ([.25, .75], [0, 1], .25),
    ([0., 1., 1.], [1, 0, 0], 1.), ([.3] * 3 + [.4], [0, 0, 0, 1], .01)])
def test_degenerate_batches(f, s, value):
    for grad in ("exact", "paper"):
        w, g = call(f, s, grad=grad)
        assert math.isclose(w, value, rel_tol=1e-9, abs_tol=1e-15) and g.isfinite().all()


def test_ring_buffer_keeps_the_last_scores():
    ring = Ring(7)
    seen = []
    g = torch.Generator().manual_seed(0)
    for size in (3, 1, 5, 12, 2, 7):
        f = torch.rand(size, generator=g)
        ring.push(f, f > .5, (f > .3).long())
        seen += f.tolist()
        scores, s, y = ring.filled()
        assert sorted(scores.tolist()) == sorted(seen[-7:])
        assert torch.equal(s, scores > .5) and torch.equal(y, (scores > .3).float())


def test_module_state():
    penalty = WassersteinPenalty(reference=50)
    f, s = torch.rand(30), torch.arange(30) % 2
    penalty(f, s)
    penalty.eval()
    penalty(f, s)
    assert penalty.ring.seen == 30
    file = io.BytesIO()
    torch.save(penalty.state_dict(), file)
    file.seek(0)
    other = WassersteinPenalty(reference=50)
    other.load_state_dict(torch.load(file, weights_only=True))
    clone = copy.deepcopy(penalty)
    new = torch.rand(20), torch.arange(20) % 2
    assert penalty(*new) == other(*new) == clone(*new) == WassersteinPenalty()(*new, ref=(f, s))
    penalty.reset()
    assert penalty(*new) == WassersteinPenalty()(*new)
    assert "p=2" in repr(penalty)


def test_reference_of_each_kind():
    "A number is a ring; Fresh is a wish that `fit` fulfils, refused without it in training mode."
    f, s = torch.rand(20), torch.arange(20) % 2
    assert [WassersteinPenalty(reference=r).ring.size for r in (7, Ring(7))] == [7, 7]
    fresh = WassersteinPenalty(reference=Fresh(500))
    assert (fresh.fresh, fresh.ring) == (500, None) and not fresh.state_dict()
    assert (WassersteinPenalty().fresh, WassersteinPenalty(reference=7).fresh) == (0, 0)
    with pytest.raises(ValueError, match="drawn by `fit`"):
        fresh(f, s)
    assert fresh(f, s, ref=(f / 2, s)) == WassersteinPenalty()(f, s, ref=(f / 2, s))
    assert fresh.eval()(f, s) == WassersteinPenalty()(f, s)
    assert "Fresh(size=500)" in repr(copy.deepcopy(fresh))


@pytest.mark.parametrize("kind", [Ring, Fresh])
@pytest.mark.parametrize("size", [0, -1, 2.5, True, None, "7"])
def test_sizes_of_references_are_whole_numbers(kind, size):
    with pytest.raises(ValueError, match="whole number"):
        kind(size)


def test_reference_carries_no_gradient():
    r = torch.rand(20, requires_grad=True)
    z = torch.rand(10, requires_grad=True)
    WassersteinPenalty()(z, torch.arange(10) % 2, ref=(r, torch.arange(20) % 2)).backward()
    assert r.grad is None and z.grad.any()


def test_seeds_reproduce_bit_for_bit():
    def once():
        torch.manual_seed(3)
        z, s = torch.rand(500, requires_grad=True), torch.rand(500) < .4
        wasserstein_penalty(z, s).backward()
        return z.grad
    assert torch.equal(once(), once())


f10, s10 = torch.rand(10), torch.arange(10) % 2
nan10 = torch.full((10,), float("nan"))
inf10 = torch.cat([f10[:9], torch.tensor([float("inf")])])
free10 = f10.clone().requires_grad_()
n_or_i = "NaN or infinite"


def module(*args, **options):
    "A call of the module with these options."
    return WassersteinPenalty(**options)(*args)


bad = {
    "NaN": (lambda: wasserstein_penalty(nan10, s10), "10 NaN or infinite of 10"),
    "infinite": (lambda: wasserstein_penalty(inf10, s10), n_or_i),
    "NaN in a batch of one group": (lambda: wasserstein_penalty(nan10[:3], [0, 0, 0]), n_or_i),
    "NaN in the reference": (
        lambda: wasserstein_penalty(f10, s10, ref_scores=nan10[:1], ref_s=[0]), n_or_i),
    "NaN with the paper's gradient": (
        lambda: wasserstein_penalty(nan10, s10, grad="paper"), n_or_i),
    "empty": (lambda: wasserstein_penalty(torch.rand(0), []), "empty"),
    "lengths": (lambda: wasserstein_penalty(f10, s10[:9]), "one entry per score"),
    "reference without groups": (lambda: wasserstein_penalty(f10, s10, ref_scores=f10), "ref_s"),
    "groups without reference": (lambda: wasserstein_penalty(f10, s10, ref_s=s10), "ref_scores"),
    "reference lengths": (
        lambda: wasserstein_penalty(f10, s10, ref_scores=f10, ref_s=s10[:3]), "`ref_s` has shape"),
    "half a group": (lambda: wasserstein_penalty(f10, s10 / 2), "whole numbers"),
    "missing group label": (lambda: wasserstein_penalty(f10, nan10), "whole numbers"),
    "three groups for the paper": (
        lambda: wasserstein_penalty(f10, torch.arange(10) % 3, grad="paper"), "the groups 0 and 1"),
    "matrix": (lambda: wasserstein_penalty(torch.rand(10, 2), s10), "shape"),
    "grad": (lambda: wasserstein_penalty(f10, s10, grad="autograd"), '"exact" or "paper"'),
    "p": (lambda: WassersteinPenalty(p=.5), "at least 1"),
    "p of the paper": (lambda: WassersteinPenalty(p=3, grad="paper"), "p = 1 and 2"),
    "n_bins": (lambda: WassersteinPenalty(n_bins=0), "n_bins"),
    "on": (lambda: WassersteinPenalty(on="logit"), "expected"),
    "given": (lambda: WassersteinPenalty(given=2), "expected"),
    "reference": (lambda: WassersteinPenalty(reference=-1), "whole number"),
    "no labels": (lambda: WassersteinPenalty(on="error")(f10, s10), "`y` is missing"),
    "labels' length": (lambda: module(f10, s10, s10[:4], given=1), "one entry per score"),
    "ref": (lambda: WassersteinPenalty()(f10, s10, ref=f10), r"\(scores, s\)"),
    "strings": (lambda: wasserstein_penalty(f10, ["a"] * 10), "recode it"),
    "labels of given": (lambda: module(f10, s10, 2 * s10 - 1, given="each"), "0 and 1 only for"),
    "missing labels": (lambda: module(f10, s10, nan10, on="error"), "`y` holds 10 NaN"),
    "on without gradient": (
        lambda: module(free10, s10, s10, on=lambda f, y: (f > .5).float()), "without gradient"),
    "on a list": (
        lambda: module(f10, s10, s10, on=lambda f, y: f.tolist()), "must return a tensor"),
    "empty module batch": (lambda: WassersteinPenalty()(torch.rand(0), []), "empty"),
}


@pytest.mark.parametrize("name", bad)
def test_bad_input_is_answered_in_words(name):
    trial, words = bad[name]
    with pytest.raises(ValueError, match=words):
        trial()


def test_imports_in_a_plain_script(tmp_path):
    code = ("from fairw2_nb import WassersteinPenalty, fairness_report; import torch; "
            "print(WassersteinPenalty()(torch.rand(4), [0, 1, 0, 1]).item() >= 0)")
    run = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("y_dtype", [torch.int64, torch.bool, torch.float32, torch.float64])
def test_own_function_gets_labels_in_the_dtype_of_the_scores(y_dtype):
    "Also from the buffer, whose labels are single precision."
    bce = lambda f, y: nn.functional.binary_cross_entropy(f, y, reduction="none")
    f, y = torch.rand(10, dtype=torch.float64), (torch.arange(10) % 3 == 0).to(y_dtype)
    penalty = WassersteinPenalty(on=bce, reference=50)
    for _ in range(2):
        assert penalty(f, s10, y).isfinite()
    assert WassersteinPenalty(on=bce)(f, s10, y, ref=(f.float(), s10, y)).isfinite()


def test_infinite_scores_raise_without_a_warning_from_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="NaN or infinite"):
            wasserstein_penalty(torch.tensor([float("inf"), 1., float("inf")]), [0, 1, 1])
