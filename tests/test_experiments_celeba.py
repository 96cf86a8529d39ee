"""The CelebA experiment, on drawn faces and on noise in CelebA's layout; no CelebA image is needed or kept."""
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from fairw2_nb import celeba as c
from fairw2_nb import celeba_changes as ch
from fairw2_nb.data.drawn_faces import synthetic_faces
from fairw2_nb.experiments.results import read_rows, results_dir


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(400, 32, seed=0)


@settings(max_examples=20, deadline=None)
@given(k=st.integers(1, 60), seed=st.integers(0, 1000))
def test_score_changes_against_a_loop(faces, k, seed):
    change = torch.rand(len(faces), generator=torch.Generator().manual_seed(seed)) - .5
    table = ch.score_changes(change, faces, k)
    up = sorted(range(len(faces)), key=lambda i: change[i].item())[-k:]
    for j, name in enumerate(faces.attribute_names):
        assert table.loc[name, "raised"] == pytest.approx(np.mean([faces.attributes[i, j].item() for i in up]))


def test_random_changes_point_to_nothing(faces):
    "Under random changes the number of glasses among the top k is hypergeometric."
    g = torch.Generator().manual_seed(0)
    total, k = int(faces.attribute("Eyeglasses").sum()), 50
    counts = [round(ch.score_changes(torch.rand(len(faces), generator=g), faces, k).loc["Eyeglasses", "raised"] * k) for _ in range(100)]
    law = hypergeom(len(faces), total, k)
    assert abs(np.mean(counts) - law.mean()) < 4 * law.std() / 10


def test_changes_table_finds_what_was_planted(faces):
    change = faces.attribute("Eyeglasses").float() - faces.attribute("Pale_Skin").float() + .01 * torch.rand(len(faces))
    table = ch.score_changes(change, faces, 20)
    row = {"attributes": {name: table.loc[name, ["raised", "lowered", "all"]].tolist() for name in table.index}}
    found = ch.changes_table([row, row])
    assert found.index[0] == "Eyeglasses" and found.index[-1] == "Pale_Skin"


def test_metrics_and_ratio(faces):
    m = c.face_metrics(faces.y * .8 + .1, faces)
    assert m["Acc"] == m["GP0"] == m["GP1"] == m["ratio"] == 1 and m["MSE"] == pytest.approx(.01, rel=1e-5)


def test_a_run_comes_again_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRW2_CACHE", str(tmp_path))
    a = c.celeba_run("error", 1., 1, "tiny", data="synthetic")
    monkeypatch.setattr(c, "train_faces", None) # a second training would fail
    assert repr(c.celeba_run("error", 1., 1, "tiny", data="synthetic")) == repr(a) # repr, since NaN differs from itself
    assert a["images"] == 600 and a["size"] == 32 and "curve" not in a


def test_training_from_its_seed(faces):
    f = [c.score_all(c.train_faces(faces[:200], faces[200:], "score", 1., 3, "tiny"), faces[200:])[0] for _ in range(2)]
    assert torch.equal(*f)


def test_curve_takes_its_points(faces):
    curve = c.Curve(faces, faces, every=3, images=50)
    for _ in range(7): curve(FloatNet())
    assert [p["step"] for p in curve.points] == [3, 6] and set(curve.points[0]) == {"step", *(f"{part}_{k}" for part in ("train", "test") for k in ("GP0", "GP1", "DI"))}


class FloatNet(torch.nn.Module):
    def forward(self, x): return x.float().mean((1, 2, 3)) / 25 - 5


def test_memory_shortage_is_answered_in_words(faces, monkeypatch):
    def fail(*args, **kwargs): raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 123 bytes.")
    monkeypatch.setattr(c, "fit", fail)
    with pytest.raises(ValueError, match="smaller chunk, a smaller batch_size or smaller images"): c.train_faces(faces, faces, "score", 1., 0, "paper")
    def other(*args, **kwargs): raise RuntimeError("something else")
    monkeypatch.setattr(c, "fit", other)
    with pytest.raises(RuntimeError, match="something else"): c.train_faces(faces, faces, "score", 1., 0, "quick")


def test_reported_weight():
    mean = pd.DataFrame({"Acc": [.77, .765, .751, .70], "DI": [.4, .5, .6, .9], "ratio": [.95, .99, .97, 1.]}, [0., .1, .2, 1.])
    assert c.reported_weight(mean, "DI") == .2 and c.reported_weight(mean, "ratio") == .1
    assert c.reported_weight(mean, "DI", cost=.1) == 1. and c.reported_weight(mean, "DI", cost=0.) == 0.


def test_stored_rows_hold_numbers_only():
    "No path, no id, no label of a single image."
    for file in ("rows", "first-rows", "fresh-rows", "changes"):
        for row in read_rows(results_dir() / "celeba" / f"{file}.jsonl"):
            assert not any(isinstance(v, str) and "/" in v for v in row.values())
            assert not any(isinstance(v, list) and len(v) > 200 for v in row.values())


def test_stored_rows_cover_every_weight():
    "Each weight at least once; those that the page reports with three networks."
    rows = [r for r in read_rows(results_dir() / "celeba" / "rows.jsonl") if r["data"] == "celeba"]
    seeds = lambda preset, on, lam, loss="bce": {r["seed"] for r in rows if (r["preset"], r["on"], r["lam"], r["loss"]) == (preset, on, lam, loss)}
    for preset in ("quick", "late"):
        for config in c.celeba_configs(preset):
            assert seeds(preset, config["on"], config["lam"], config["loss"]), config
    for key in (("quick", "score", 0.), ("quick", "score", 1.5), ("quick", "error", 2.), ("quick", "error", 4.), ("quick", "error", 6.), ("late", "score", 0.), ("late", "score", 1.), ("late", "score", 1.25), ("late", "error", 8.)): assert len(seeds(*key)) >= 3, key


def test_reported_numbers_from_the_rows():
    "Accuracy without penalty, what a third more DI costs, and the ratio of good predictions, means over the networks."
    rows = [r for r in read_rows(results_dir() / "celeba" / "rows.jsonl") if (r["data"], r["preset"]) == ("celeba", "late")]
    mean = lambda on, lam, name: np.mean([r[name] for r in rows if (r["on"], r["lam"]) == (on, lam)])
    assert mean("score", 0., "Acc") >= .76
    assert mean("score", 1., "DI") >= 1.3 * mean("score", 0., "DI") and mean("score", 0., "Acc") - mean("score", 1., "Acc") <= .02
    assert mean("error", 8., "ratio") >= .98


def test_late_weight_grows_in_the_middle_of_the_training(faces, monkeypatch):
    "0 for a quarter of the steps, full from six tenths on; a constant weight for the other presets and for λ = 0."
    seen = {}
    def note(net, train, lam, **options): seen["lam"] = lam
    monkeypatch.setattr(c, "fit", note)
    c.train_faces(faces[:200], faces, "error", 8., 0, "late") # two steps an epoch, four in all
    weight = seen["lam"]
    assert (weight.full, weight.start, weight.stop) == (8., 1, 2)
    for lam, preset in ((8., "quick"), (0., "late")):
        c.train_faces(faces[:200], faces, "error", lam, 0, preset)
        assert seen["lam"] == lam
