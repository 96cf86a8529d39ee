"""The penalty of many groups, several attributes and weights; torch's transforms."""
import warnings

import fairw2_nb.penalty.gradients as gradients
import fairw2_nb.penalty.loss as loss
import numpy as np
import pytest
import torch
from fairw2_nb.penalty.loss import WassersteinPenalty, wasserstein_penalty
from fairw2_nb.transport.exact import wasserstein_1d
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def draw(n=120, K=4, seed=0):
    "Scores, groups and labels."
    g = torch.Generator().manual_seed(seed)
    s = torch.randint(K, (n,), generator=g)
    return torch.rand(n, generator=g).double() + .1 * s, s, torch.randint(2, (n,), generator=g)


def value_and_grad(penalty, f, *args, **kwargs):
    free = f.clone().requires_grad_()
    value = penalty(free, *args, **kwargs)
    return value.detach(), torch.autograd.grad(value, free)[0]


def pairs(f, s, p=2):
    "The mean over all pairs of groups."
    of = [f[s == k] for k in s.unique()]
    found = [wasserstein_1d(a, b, p) for i, a in enumerate(of) for b in of[:i]]
    return torch.stack(found).mean()


@pytest.mark.parametrize("K", [2, 3, 7, 50])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_mean_of_all_pairs(K, p):
    f, s, _ = draw(400, K)
    for ours, theirs in zip(value_and_grad(wasserstein_penalty, f, s, p=p),
                            value_and_grad(pairs, f, s, p)):
        assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"on": "error"}, {"given": 1}, {"relative": True},
                                     {"given": "each", "weights": "root"}])
def test_finite_differences(options):
    f, s, y = draw(60, 5)
    penalty = WassersteinPenalty(**{"reference": 0, **options})
    assert torch.autograd.gradcheck(lambda z: penalty(z, s, y), f.requires_grad_(), atol=1e-6)


@given(st.integers(2, 6), st.integers(0, 500))
def test_names_of_groups_do_not_matter(K, seed):
    f, s, _ = draw(80, K, seed)
    expected = value_and_grad(wasserstein_penalty, f, s)
    names = torch.randperm(2000, generator=torch.Generator().manual_seed(seed))[:K] - 1000
    sorted_names = value_and_grad(wasserstein_penalty, f, names.sort()[0][s])
    assert all(map(torch.equal, sorted_names, expected))
    for a, b in zip(value_and_grad(wasserstein_penalty, f, names[s].double()), expected):
        assert_close(a, b, rtol=1e-9, atol=1e-13)


def test_ring_is_an_explicit_reference():
    f, s, y = draw(120, 5)
    for options in ({}, {"given": "each"}, {"relative": True}, {"weights": "share"}):
        ringed = WassersteinPenalty(reference=60, **options)
        plain = WassersteinPenalty(reference=0, **options)
        ringed(f[:60], s[:60], y[:60])
        ours = value_and_grad(ringed, f[60:], s[60:], y[60:])
        explicit = value_and_grad(plain, f[60:], s[60:], y[60:], ref=(f[:60], s[:60], y[:60]))
        for a, b in zip(ours, explicit):
            assert_close(a, b, rtol=1e-6, atol=1e-9)


def test_reference_keeps_the_batch_count_group_by_group():
    f, s, _ = draw(200, 4)
    merged, g = value_and_grad(wasserstein_penalty, f, s)
    ref = dict(ref_scores=f[80:], ref_s=s[80:])
    value, own = value_and_grad(wasserstein_penalty, f[:80], s[:80], **ref)
    factor = s.bincount() / s[:80].bincount()
    assert_close(value, merged)
    assert_close(own, g[:80] * factor[s[:80]])


def test_attributes_each_and_crossed():
    f, s, y = draw(200, 3)
    t = torch.arange(200) % 2
    both = torch.stack([s, t], 1)
    each = [value_and_grad(wasserstein_penalty, f, k) for k in (s, t)]
    ours = value_and_grad(WassersteinPenalty(), f, both)
    for k in (0, 1):
        assert_close(ours[k], (each[0][k] + each[1][k]) / 2)
    crossed = WassersteinPenalty(crossed=True, reference=0)
    assert_close(crossed(f, both), wasserstein_penalty(f, 2 * s + t))
    assert_close(crossed(f, both, ref=(f, both)), wasserstein_penalty(f, 2 * s + t))
    ringed, plain = WassersteinPenalty(reference=100), WassersteinPenalty(reference=0)
    ringed(f[:100], both[:100])
    explicit = plain(f[100:], both[100:], ref=(f[:100], both[:100]))
    assert_close(ringed(f[100:], both[100:]), explicit, rtol=1e-6, atol=0)
    given = WassersteinPenalty(given="each", reference=0)
    mean = sum(WassersteinPenalty(given=k)(f, v, y) for k in (0, 1) for v in (s, t)) / 4
    assert_close(given(f, both, y), mean)


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("p", [1, 2])
def test_weights_of_observations(K, p):
    "Whole weights are repetitions, zero among them; a common factor does not matter."
    f, s, y = draw(90, K)
    times = torch.arange(90) % 4
    again = [v.repeat_interleave(times) for v in (f, s, y)]
    for options in ({}, {"given": 1}, {"weights": "share"}):
        penalty = WassersteinPenalty(p, **options)
        value, g = value_and_grad(penalty, f, s, y, sample_weight=.3 * times)
        value_, g_ = value_and_grad(penalty, *again)
        assert_close(value, value_, rtol=1e-9, atol=0)
        at = torch.arange(90).repeat_interleave(times)
        assert_close(g, torch.zeros(90).double().index_add_(0, at, g_), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("bad, words", [
    (dict(sample_weight=[-1.] * 120), "non-negative"), (dict(sample_weight=[0.] * 120), "all zero"),
    (dict(sample_weight=[1.] * 3), "one entry per score"), (dict(weights="size"), "weights ="),
    (dict(sample_weight=[1.] * 120, grad="paper"), "counts observations"),
    (dict(sample_weight=[0.] * 120, ref_scores=[.1], ref_s=[1]), "all zero")])
def test_mistakes(bad, words):
    f, s, _ = draw()
    with pytest.raises(ValueError, match=words):
        wasserstein_penalty(f, s, **bad)


@pytest.mark.parametrize("call, words", [
    (lambda f, s: wasserstein_penalty(torch.rand(1001), torch.arange(1001)), "1001 groups"),
    (lambda f, s: wasserstein_penalty(f, s.repeat(4, 1).T), "4 columns"),
    (lambda f, s: wasserstein_penalty(f, torch.stack([s, s - 1], 1)), "from 0 to 99"),
    (lambda f, s: wasserstein_penalty(f[:50], torch.stack([s, s], 1)), "one entry per score"),
    (lambda f, s: wasserstein_penalty(torch.complex(f, f), s), "complex"),
    (lambda f, s: wasserstein_penalty(f * 1e200, s), "smaller p"),
    (lambda f, s: wasserstein_penalty(f * 1e3, s, p=1000), "smaller p")])
def test_what_has_no_answer_is_said(call, words):
    f, s, _ = draw()
    with pytest.raises(ValueError, match=words):
        call(f, s)


def test_one_group_of_many_is_zero_with_a_warning_at_the_caller():
    f, s, y = draw()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value, g = value_and_grad(WassersteinPenalty(), f, s * 0 + 7)
    assert value == 0 and not g.any()
    assert "of group 7" in str(caught[0].message) and caught[0].filename == __file__


def of_scores(f):
    return wasserstein_penalty(f, torch.arange(12) % 3)


def test_transforms_of_torch_func():
    f = torch.rand(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    value, g = value_and_grad(of_scores, f)
    func = torch.func
    assert_close(func.grad(of_scores)(f), g)
    assert_close(func.vjp(of_scores, f)[1](torch.tensor(2.).double())[0], 2 * g)
    assert_close(func.jvp(of_scores, (f,), (f,))[1], g @ f)
    assert_close(func.jacrev(of_scores)(f), g)
    assert_close(func.jacfwd(of_scores)(f), g)
    many = torch.stack([f, 2 * f, f - 1])
    assert_close(func.vmap(of_scores)(many), torch.stack([value, 4 * value, value]))
    assert_close(func.vmap(func.grad(of_scores))(many), torch.stack([g, 2 * g, g]))
    groups = torch.stack([torch.arange(12) % 2, torch.arange(12) % 3])
    both = func.vmap(wasserstein_penalty, (None, 0))(f, groups)
    assert_close(both, torch.stack([wasserstein_penalty(f, s) for s in groups]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(f, f)
        assert_close(torch.autograd.forward_ad.unpack_dual(of_scores(dual)).tangent, g @ f)


@pytest.mark.parametrize("twice", [
    lambda f: torch.func.hessian(of_scores)(f),
    lambda f: torch.func.jacrev(torch.func.grad(of_scores))(f),
    lambda f: torch.func.grad(lambda z: torch.func.grad(of_scores)(z).sum())(f),
    lambda f: torch.autograd.functional.hessian(of_scores, f)])
def test_second_derivatives_are_refused(twice):
    with pytest.raises(RuntimeError, match="first derivative only"):
        twice(torch.rand(12))


def test_a_ring_inside_of_a_transform_is_refused_in_words():
    ringed = WassersteinPenalty(reference=50)
    s = torch.arange(12) % 2
    with pytest.raises(RuntimeError, match="cannot remember"):
        torch.func.grad(lambda f: ringed(f, s))(torch.rand(12))
    assert torch.func.grad(lambda f: ringed.eval()(f, s))(torch.rand(12)).any()


def test_half_precision_averages_before_it_overflows():
    "Each part is above 65504, the largest number of half precision, together; not their mean."
    f, s, y = torch.tensor([0., 220., 0., 220.]).half(), [0, 1, 0, 1], [0, 0, 1, 1]
    assert WassersteinPenalty(given="each")(f, s, y) == torch.tensor(220. ** 2).half()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    f, s, _ = draw(60, 5)
    net = torch.nn.Linear(1, 1)
    penalty = WassersteinPenalty(reference=60)
    with torch.autocast("cpu", dtype=dtype):
        for _ in range(2):
            value = penalty(net(f.float()[:, None]).sigmoid(), s)
            value.backward()
    assert value.dtype == dtype and net.weight.grad.isfinite().all()


@pytest.mark.parametrize("options", [{}, {"p": 1}, {"given": "each"}, {"relative": True},
                                     {"on": "error"}, {"weights": "root"}])
@pytest.mark.parametrize("K", [2, 5])
def test_other_devices_take_the_same_road(options, K, monkeypatch):
    "With the arrays left as tensors, all goes the road of other devices."
    f, s, y = draw(100, K)
    penalty = WassersteinPenalty(**options)
    on_cpu = value_and_grad(penalty, f[:60], s[:60], y[:60], ref=(f[60:], s[60:], y[60:]))
    for module in (loss, gradients, loss.join.__globals__):
        place = module if isinstance(module, dict) else module.__dict__
        monkeypatch.setitem(place, "numpy_on_cpu", lambda z: z if z is None else z.detach())
    elsewhere = value_and_grad(penalty, f[:60], s[:60], y[:60], ref=(f[60:], s[60:], y[60:]))
    for a, b in zip(on_cpu, elsewhere):
        assert_close(a, b, rtol=1e-10, atol=1e-13)


def test_two_groups_are_compared_to_the_last_bit_as_before():
    "Numbers of the version that knew two groups only."
    g = torch.Generator().manual_seed(0)
    f, s = torch.rand(50, generator=g), torch.rand(50, generator=g) < .3
    y = (torch.rand(50, generator=g) < .5).long()
    for options, expected in GOLDEN:
        value, grad = value_and_grad(WassersteinPenalty(**options), f[:30], s[:30], y[:30],
                                     ref=(f[30:], s[30:], y[30:]))
        assert (value.item(), grad.double().sum().item(), grad[7].item()) == expected, options


GOLDEN = [
    ({}, (0.002789710648357868, -0.0023441209486918524, 0.0030737905763089657)),
    ({"p": 1}, (0.043409768491983414, 0.1370321004651487, 0.022058824077248573)),
    ({"on": "error"}, (0.014330331236124039, -0.05228285247540043, 0.0009529595845378935)),
    ({"given": "each"}, (0.04428810626268387, 0.14429727953393012, 0.023182334378361702)),
    ({"given": 1, "relative": True}, (0.06120283529162407, 0.3771241119829938, 0.5658753514289856)),
    ({"grad": "paper"}, (0.002789710648357868, -8.150538360496284e-05, -7.139372610254213e-05)),
    ({"p": 1, "grad": "paper"},
     (0.043409768491983414, 0.006909091025590897, -0.004000000189989805)),
    ({"relative": True}, (0.03555449843406677, -0.0428880718536675, 0.023056374862790108)),
]


@pytest.mark.parametrize("options", [dict(), dict(relative=True), dict(debias=True),
                                     dict(reference=0), dict(reference=50)])
@pytest.mark.parametrize("named", [lambda s: s - 5, lambda s: s * 10 ** 12,
                                   lambda s: (s - 1).to(torch.int8)])
def test_any_whole_numbers_name_groups(named, options):
    "Negative, huge or short ones: value and gradient are those of 0, 1, 2, in every step."
    found = []
    for label in (lambda s: s, named):
        torch.manual_seed(0)
        penalty = WassersteinPenalty(**options)
        for _ in range(4):
            f = torch.rand(60, requires_grad=True)
            value = penalty(f, label(torch.arange(60) % 3))
            found.append([value.item(), *torch.autograd.grad(value, f)[0].tolist()])
    assert found[:4] == found[4:]


TWO = torch.stack([torch.arange(60) % 3, torch.arange(60) % 2], 1)


@pytest.mark.parametrize("options, call, words", [
    (dict(crossed="no"), {}, "True or False"), (dict(relative="yes"), {}, "True or False"),
    (dict(p=True), {}, "at least 1"), (dict(p="2"), {}, "at least 1"),
    (dict(sync="x"), {}, "process group, or False"),
    (dict(reference=0), dict(ref=(torch.rand(60), TWO)), "2 attributes and `s` has 1"),
    (dict(on="error"), dict(y=torch.arange(60) % 2 + 1.), "from 1 to 2"),
    (dict(), dict(s=TWO * 1j), "complex"), (dict(), dict(s=TWO * 75), "column 0 holds 150"),
    (dict(), dict(s=torch.arange(60) % 2 * 1j), "complex"),
    (dict(), dict(sample_weight=["a"] * 60), "must hold numbers")])
def test_mistakes_of_the_module(options, call, words):
    f, s = torch.rand(60), call.pop("s", torch.arange(60) % 3)
    with pytest.raises(ValueError, match=words):
        WassersteinPenalty(**options)(f, s, **call)


def test_numbers_of_numpy_are_numbers():
    f, s = torch.rand(60), torch.arange(60) % 3
    one = WassersteinPenalty(p=np.float32(2), reference=np.int64(50), relative=np.bool_(True))
    assert one(f, s) == WassersteinPenalty(reference=50, relative=True)(f, s)
