"""The relative penalty against finite differences, and its invariance."""
import pytest
import torch
from fairw2_nb.penalty.loss import WassersteinPenalty
from hypothesis import given, settings, strategies as st


def draw(seed, n=30):
    g = torch.Generator().manual_seed(seed)
    s = torch.arange(n) % 3 == 0
    y = torch.randint(2, (n,), generator=g)
    y[:6] = torch.tensor([0, 1, 0, 1, 0, 1])
    return torch.rand(n, generator=g).double(), s, y


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 100), st.floats(.01, 100), st.floats(-5, 5))
def test_no_unit(seed, a, b):
    f, s, _ = draw(seed)
    plain = WassersteinPenalty(relative=True, reference=0)
    assert torch.allclose(plain(a * f + b, s), plain(f, s), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"given": 1}, {"on": "error"}])
def test_gradient_by_finite_differences(options):
    f, s, y = draw(3)
    penalty = WassersteinPenalty(relative=True, reference=0, **options)
    assert torch.autograd.gradcheck(lambda v: penalty(v, s, y), f.requires_grad_(), atol=1e-6)


def test_a_reference_of_the_same_scores_changes_nothing():
    f, s, _ = draw(5)
    a, b = f.clone().requires_grad_(), f.clone().requires_grad_()
    penalty = WassersteinPenalty(relative=True, reference=0)
    penalty(a, s).backward()
    penalty(b, s, ref=(f, s)).backward()
    assert torch.allclose(a.grad, b.grad, rtol=1e-9)


@pytest.mark.parametrize("bad", [dict(p=1), dict(grad="paper")])
def test_only_for_the_exact_square(bad):
    with pytest.raises(ValueError, match="relative=True needs"):
        WassersteinPenalty(relative=True, **bad)
