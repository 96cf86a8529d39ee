"""Ratios of attributes, and the generator of drawn faces against its own rates."""
import numpy as np
import pytest
import torch
from fairw2_nb.data.drawn_faces import CONFOUNDERS, LABEL_WEIGHTS, RATES, YOUNG
from fairw2_nb.data.drawn_faces import draw_traits, synthetic_faces
from fairw2_nb.data.faces import FaceDataset, attribute_ratios
from fairw2_nb.data.painting import ellipse
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close


def test_ratios():
    g = torch.Generator().manual_seed(0)
    shares = torch.tensor([.2, .5, .5])
    a = (torch.rand(500, 3, generator=g) < shares).to(torch.uint8)
    blank = torch.zeros(500, 3, 2, 2, dtype=torch.uint8)
    d = FaceDataset(blank, a, ["Male", "Attractive", "Young"])
    r = attribute_ratios(d)
    rates = [a[d.s == k, 0].float().mean().item() for k in (0, 1)]
    assert r.loc["Male", "ratio"] == pytest.approx(rates[0] / rates[1], rel=1e-6)
    assert (r.low < r.ratio).all() and (r.ratio < r.high).all()
    assert list(r.index) == list(r.sort_values("ratio", ascending=False).index)
    a[d.s == 1, 0] = 0
    none = attribute_ratios(FaceDataset(blank, a, d.attribute_names))
    assert np.isinf(none.loc["Male", "ratio"])


# drawn faces

@pytest.fixture(scope="module")
def drawn():
    return synthetic_faces(1500, 32, seed=7)


def test_drawn_faces_have_the_interface(drawn):
    assert type(drawn) is FaceDataset and drawn.x.dtype == torch.uint8
    assert drawn.x.shape == (1500, 3, 32, 32) and "Synthetic" in repr(drawn)
    assert set(drawn.attribute_names) == {"Young", "Attractive", *RATES}
    assert set(RATES) == {"Eyeglasses", "Male", "Pale_Skin", "Smiling", "Gray_Hair"}
    assert len(drawn.x.flatten(1).unique(dim=0)) == 1500


def test_drawn_rates(drawn):
    r = attribute_ratios(drawn, z=5)
    ratios = {name: r_0 / r_1 for name, (r_0, r_1) in RATES.items()}
    for name, ratio in ratios.items():
        assert r.low[name] < ratio < r.high[name]
    assert abs(drawn.s.float().mean() - YOUNG) < 5 * (YOUNG * (1 - YOUNG) / 1500) ** .5
    assert ratios["Eyeglasses"] == pytest.approx(4.71)
    assert ratios["Male"] == pytest.approx(2.01)
    assert 1 / ratios["Pale_Skin"] == pytest.approx(1.8)


def test_confounders_move_the_label():
    t = draw_traits(100_000, np.random.default_rng(1))
    young, label = t["Young"], t["Attractive"]
    for name, group in CONFOUNDERS.items():  # within the larger group: age plays no part
        y, has = label[young], t[name][young]
        assert (y[has].mean() > y[~has].mean() + .1) == (group == 1)
        assert (LABEL_WEIGHTS[name] > 0) == (group == 1)
    assert label[~young].mean() / label[young].mean() < .4


@settings(max_examples=6)
@given(size=st.integers(16, 80), seed=st.integers(0, 10 ** 6))
def test_any_size_and_seed(size, seed):
    a = synthetic_faces(70, size, seed)
    assert a.x.shape == (70, 3, size, size)
    assert torch.equal(a.x, synthetic_faces(70, size, seed).x)
    assert torch.equal(a.attributes, synthetic_faces(70, 16, seed).attributes)
    assert not torch.equal(a.x, synthetic_faces(70, size, seed + 1).x)


def test_the_pictures_show_the_attributes(drawn):
    x = drawn.x.float()
    grey, pale = drawn.attribute("Gray_Hair") == 1, drawn.attribute("Pale_Skin") == 1
    hair = x[:, :, 4:9, 13:19]
    colourful = hair.std(1).mean((1, 2)) / hair.mean((1, 2, 3))
    assert colourful[grey].mean() < .7 * colourful[~grey].mean()
    cheek = x[:, :, 17:21, 14:18].mean((1, 2, 3))
    assert cheek[pale].mean() > 1.2 * cheek[~pale].mean()
    assert x.mean((1, 2, 3)).std() > 10


@given(rx=st.floats(.2, .8), ry=st.floats(.2, .8))
@settings(max_examples=10)
def test_area_of_an_ellipse(rx, ry):
    at = (torch.arange(100) + .5) / 50 - 1
    u, v = at.expand(1, 100, 100), at[:, None].expand(1, 100, 100)
    area = ellipse(u, v, 0., 0., rx, ry, .02).sum() * .02 ** 2
    assert_close(area, torch.tensor(torch.pi * rx * ry), rtol=.02, atol=0)


@pytest.mark.parametrize("arguments, sentence", [
    (dict(n=5), "at least 20"),
    (dict(n=50, size=4), "at least 16"),
    (dict(n=50, size=16, target="glasses"), "'Eyeglasses'"),
])
def test_generator_refuses(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        synthetic_faces(**arguments)
