"""The CelebA experiment, on drawn faces and noise; no CelebA image is needed or kept."""
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from test_data_celeba import noise_celeba

from fairw2_nb.experiments import celeba as c
from fairw2_nb.experiments import celeba_attributes as ch
from fairw2_nb.cli import run_experiment
from fairw2_nb.data.drawn_faces import synthetic_faces
from fairw2_nb.experiments.experiment import missing, rows_of
from fairw2_nb.experiments.results import committed_rows, read_rows


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
        share = np.mean([faces.attributes[i, j].item() for i in up])
        assert table.loc[name, "raised"] == pytest.approx(share)


def test_random_changes_point_to_nothing(faces):
    "Under random changes the number of glasses among the top k is hypergeometric."
    g = torch.Generator().manual_seed(0)
    total, k = int(faces.attribute("Eyeglasses").sum()), 50
    draws = [ch.score_changes(torch.rand(len(faces), generator=g), faces, k) for _ in range(100)]
    counts = [round(table.loc["Eyeglasses", "raised"] * k) for table in draws]
    law = hypergeom(len(faces), total, k)
    assert abs(np.mean(counts) - law.mean()) < 4 * law.std() / 10


def test_changes_table_finds_what_was_planted(faces):
    change = faces.attribute("Eyeglasses").float() - faces.attribute("Pale_Skin").float()
    table = ch.score_changes(change + .01 * torch.rand(len(faces)), faces, 20)
    row = {name: shares.tolist() for name, shares in table.iterrows()}
    found = ch.attributes_table(pd.DataFrame({"attributes": [row, row]}))
    assert found.index[0] == "Eyeglasses" and found.index[-1] == "Pale_Skin"


def test_metrics_and_ratio(faces):
    m = c.face_metrics(faces.y * .8 + .1, faces)
    assert m["Acc"] == m["GP0"] == m["GP1"] == m["ratio"] == 1
    assert m["MSE"] == pytest.approx(.01, rel=1e-5)


def test_a_run_comes_again_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRW2_CACHE", str(tmp_path))
    monkeypatch.setattr(c, "synthetic_faces", lambda n, *a, **k: synthetic_faces(n // 6, *a, **k))
    a = c.celeba_run("error", 1., 1, "tiny", source="synthetic")
    monkeypatch.setattr(c, "train_faces", None) # a second training would fail
    again = c.celeba_run("error", 1., 1, "tiny", source="synthetic")
    assert repr(again) == repr(a) # repr, since NaN differs from itself
    assert a["images"] == 100 and a["size"] == 32 and "curve" not in a


def test_training_from_its_seed(faces):
    nets = [c.train_faces(faces[:60], "score", 1., 3, "tiny") for _ in range(2)]
    assert torch.equal(*(c.score_all(net, faces[360:])[0] for net in nets))


def test_curve_takes_its_points(faces):
    curve = c.Curve(faces, faces, every=3, images=50)
    for _ in range(7): curve(FloatNet())
    names = {f"{part}_{k}" for part in ("train", "test") for k in ("GP0", "GP1", "DI")}
    assert [p["step"] for p in curve.points] == [3, 6]
    assert set(curve.points[0]) == {"step", *names}


class FloatNet(torch.nn.Module):
    def forward(self, x): return x.float().mean((1, 2, 3)) / 25 - 5


def test_memory_shortage_is_answered_in_words(faces, monkeypatch):
    def failing(text):
        def fail(*args, **kwargs): raise RuntimeError(text)
        return fail
    full = "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 123 bytes."
    monkeypatch.setattr(c, "fit", failing(full))
    with pytest.raises(ValueError, match="smaller chunk, a smaller batch_size or smaller images"):
        c.train_faces(faces, "score", 1., 0, "paper")
    monkeypatch.setattr(c, "fit", failing("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        c.train_faces(faces, "score", 1., 0, "quick")


@pytest.mark.parametrize("exp, campaign", [(c.CELEBA, "main"), (c.CELEBA, "trials"),
                                           (c.CELEBA, "fresh"), (ch.ATTRIBUTES, "main")])
def test_stored_rows_hold_numbers_only(exp, campaign):
    "No path, no id, no label of a single image."
    rows = rows_of(exp, campaign=campaign).to_dict("records")
    assert rows
    for row in rows:
        assert not any(isinstance(v, str) and "/" in v for v in row.values())
        assert not any(isinstance(v, list) and len(v) > 200 for v in row.values())


def stored(preset):
    "The rows on CelebA of a preset."
    return rows_of(c.CELEBA, source="celeba", preset=preset)


@pytest.mark.parametrize("preset", ["quick", "late"])
def test_stored_rows_cover_every_weight(preset):
    "Each weight at least once."
    rows = stored(preset)
    known = set(zip(rows.on, rows.lam, rows.loss))
    for setting in c.celeba_grid(preset):
        assert (setting["on"], setting["lam"], setting["loss"]) in known, setting


def test_reported_weights_have_three_networks():
    reported = {"quick": [("score", 0.), ("score", 1.5), *(("error", lam) for lam in (2., 4., 6.))],
                "late": [("score", 0.), ("score", 1.), ("score", 1.25), ("error", 8.)]}
    for preset, weights in reported.items():
        rows = stored(preset)
        rows = rows[rows.loss == "bce"]
        for on, lam in weights:
            assert rows[(rows.on == on) & (rows.lam == lam)].seed.nunique() >= 3, (preset, on, lam)


def test_reported_numbers_from_the_rows():
    "Accuracy without penalty, what a third more DI costs, and the ratio of good predictions."
    mean = stored("late").groupby(["on", "lam"])[["Acc", "DI", "ratio"]].mean()
    plain, fair = mean.loc[("score", 0.)], mean.loc[("score", 1.)]
    assert plain.Acc >= .76
    assert fair.DI >= 1.3 * plain.DI and plain.Acc - fair.Acc <= .02
    assert mean.loc[("error", 8.)].ratio >= .98


def test_late_weight_grows_in_the_middle_of_the_training(faces, monkeypatch):
    "0 for a quarter of the steps, full from six tenths on; else, and for λ = 0, constant."
    seen = {}
    def note(net, train, lam, **options): seen["lam"] = lam
    monkeypatch.setattr(c, "fit", note)
    c.train_faces(faces[:200], "error", 8., 0, "late") # two steps an epoch, four in all
    weight = seen["lam"]
    assert (weight.full, weight.start, weight.stop) == (8., 1, 2)
    for lam, preset in ((8., "quick"), (0., "late")):
        c.train_faces(faces[:200], "error", lam, 0, preset)
        assert seen["lam"] == lam


# where the images lie

def key_before(row, names):
    "The key of a row as it was when no experiment had a place."
    text = json.dumps([row.get(k) for k in ("version", "data", "campaign", *names)], sort_keys=True)
    return json.dumps(json.loads(text, parse_int=float))


@pytest.mark.parametrize("exp, names", [
    (c.CELEBA, "on lam seed preset loss source"),
    (ch.ATTRIBUTES, "lam seed preset source on k"), (ch.RATIOS, "what part"),
], ids=["celeba", "attributes", "ratios"])
def test_committed_rows_keep_their_keys(exp, names, tmp_path):
    "Each is known by its old key, and found whatever folder is named."
    names, path = names.split(), committed_rows() / f"{exp.name}.jsonl"
    rows, copy = read_rows(path), shutil.copy(path, tmp_path)
    assert rows and all(exp.key(row) == key_before(row, names) for row in rows)
    data = {exp.key(row | {"data": ""}): row["data"] for row in rows}
    for campaign in {row["campaign"] for row in rows}:
        about = {"campaign": campaign, "version": exp.version, "data": ""}
        known = replace(exp, data=lambda **s: data[exp.key(s | about)])
        wanted = [{k: row[k] for k in names} | {"folder": str(tmp_path)}
                  for row in rows if row["campaign"] == campaign]
        asked, todo = missing(known, copy, wanted, campaign)
        assert not todo and set(asked) == {exp.key(r) for r in rows if r["campaign"] == campaign}


@pytest.fixture
def noise(tmp_path, monkeypatch):
    "Folders with the same noise for CelebA; the environment names a third one, without images."
    for name in ("FAIRW2_CACHE", "FAIRW2_CELEBA"): monkeypatch.setenv(name, str(tmp_path / name))
    folder = noise_celeba(tmp_path / "one", range(1, 201))
    return folder, shutil.copytree(folder, tmp_path / "two")


def test_a_folder_reaches_the_workers_and_no_row(noise, tmp_path, capsys, monkeypatch):
    "The rows of one folder are those of a copy elsewhere; the environment is only read."
    folder, moved = noise
    path, before = tmp_path / "ratios.jsonl", dict(os.environ)
    what = ["young to old persons", "eyeglasses, old to young"]
    exp = replace(ch.RATIOS, grid=lambda data="": [dict(what=w, folder=data) for w in what])
    run_experiment(exp, ["--data", str(folder), "--workers", "2", "--out", str(tmp_path)])
    text, rows = path.read_text(), read_rows(path)
    assert str(tmp_path) not in text and "folder" not in text
    assert [row["images"] for row in rows] == [160, 160]
    assert {row["data"] for row in rows} == {c.celeba_digest(moved)}
    run_experiment(exp, ["--data", str(moved), "--out", str(tmp_path)])
    assert path.read_text() == text, "a copy asks the same question"
    assert str(folder) not in capsys.readouterr().out and dict(os.environ) == before
    monkeypatch.setenv("FAIRW2_CELEBA", str(moved))
    assert not missing(exp, path, exp.grid(None), "main")[1], "the environment is the default"


def test_networks_see_the_images_of_their_folder(noise, monkeypatch):
    def scores(parts, *setting):
        return dict(zip(("train", "valid", "test"), (part.y.numpy() for part in parts)), curve=None)
    for module in (c, ch): monkeypatch.setattr(module, "kept_scores", scores)
    setting = c.celeba_grid("tiny", 1, str(noise[1]))[1]
    assert setting["folder"] == str(noise[1]) and c.celeba_run(**setting)["images"] == 160
    found = ch.attributes_run(**ch.attributes_grid(1, data=str(noise[1]))[0], preset="tiny", k=5)
    assert len(found["attributes"]) == 4 and found["raised_mean"] == 0
    for run in (c.celeba_run, ch.attributes_run):
        with pytest.raises(ValueError, match="list_attr_celeba"): run(lam=1., on="error", seed=0)
