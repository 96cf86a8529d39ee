"""Adult inside the package: its counts, its columns, its checksum."""
import gzip
import hashlib

import numpy as np
import pytest
import torch
from conftest import LIB
from fairw2_nb.data import adult as module
from fairw2_nb.data.adult import ADULT_SHA256, adult_frame, load_adult
from torch.testing import assert_close

FILES = LIB / "data" / "files"


@pytest.fixture(scope="module")
def frame():
    return adult_frame()


@pytest.fixture(scope="module")
def adult():
    return load_adult()


def test_counts(frame, adult):
    assert frame.shape == (48_842, 15) and len(frame.dropna()) == 45_222
    gaps = frame.isna().sum()[lambda v: v > 0].to_dict()
    assert gaps == {"workclass": 2799, "occupation": 2809, "native-country": 857}
    y, s = (torch.cat([getattr(d, k) for d in adult]) for k in "ys")
    counts = [(int(y[s == k].sum()), int((s == k).sum())) for k in (0, 1)]
    assert counts == [(1669, 14_695), (9539, 30_527)]
    assert [len(d) for d in adult] == [33_916, 11_306]
    assert adult[0].groups == ("Female", "Male")


def test_rows_are_the_published_ones(frame):
    assert frame.iloc[0].tolist() == [
        39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical",
        "Not-in-family", "White", "Male", 2174, 0, 40, "United-States", "<=50K"]
    assert frame.iloc[32_561, :4].tolist() == [25, "Private", 226_802, "11th"]
    assert (frame.income[:32_561] == ">50K").sum() == 7841
    assert set(frame.income) == {"<=50K", ">50K"}


@pytest.mark.parametrize("encoding", ["onehot", "ordinal"])
def test_statistics_are_those_of_the_training_part(encoding, frame):
    train, test = load_adult(encoding=encoding, seed=3)
    zero, one = torch.tensor([0., 1.], dtype=torch.float64)
    for name in ("age", "hours-per-week", "capital-gain"):
        column = train.x[:, train.names.index(name)].double()
        assert_close(column.mean(), zero, rtol=0, atol=1e-5)
        assert_close(column.std(correction=0), one, rtol=1e-5, atol=0)
        assert test.x[:, train.names.index(name)].double().mean().abs() > 1e-5
    k = train.names.index("age")
    mean, std = train.encoder.stats["age"]
    ages = torch.cat([train.x[:, k], test.x[:, k]]) * std + mean
    np.testing.assert_allclose(ages.sort().values, np.sort(frame.dropna().age), rtol=1e-5)


@pytest.mark.parametrize("sensitive", ["sex", "race"])
@pytest.mark.parametrize("encoding", ["onehot", "ordinal"])
def test_sensitive_column(sensitive, encoding):
    options = dict(encoding=encoding, sensitive=sensitive)
    without, kept = (load_adult(**options, keep_sensitive=k)[0] for k in (False, True))
    of = [k for k, n in enumerate(kept.names) if n.split("=")[0] == sensitive]
    assert of and not any(n.split("=")[0] == sensitive for n in without.names)
    others = [k for k in range(len(kept.names)) if k not in of]
    assert_close(kept.x[:, others], without.x, rtol=0, atol=0)
    without.s = (without.s == without.s.mode().values).long()  # the largest group or another
    high = (without.x > without.x.mean(0)).long()
    copies = (high == without.s[:, None]).float().mean(0)
    assert ((copies < .95) & (copies > .05)).all()  # no column is the group under another name
    assert "income" not in {n.split("=")[0] for n in kept.names}


def test_splits_by_seed():
    a, b, c = (load_adult(seed=seed)[1] for seed in (1, 1, 2))
    assert all(torch.equal(u, v) for u, v in zip(a.tensors, b.tensors))
    assert not torch.equal(a.y, c.y)


def test_columns():
    fourteen = load_adult(encoding="ordinal", keep_sensitive=True, drop=())[0]
    assert fourteen.x.shape[1] == 14
    names = load_adult(encoding="ordinal", drop=("education", "fnlwgt"))[0].names
    assert len(names) == 11 and "fnlwgt" not in names and "education-num" in names
    with pytest.raises(ValueError, match="no column 'gender'. There is: 'age'"):
        load_adult(sensitive="gender")
    with pytest.raises(TypeError, match="positional"):
        load_adult("ordinal")


def test_races(frame):
    counts = frame.dropna().race.value_counts().sort_index()
    train, test = load_adult(sensitive="race")
    assert train.groups == tuple(counts.index)
    assert (train.s.bincount() + test.s.bincount()).tolist() == counts.tolist()
    sex, _ = load_adult(sensitive=["sex", "race"])
    assert torch.equal(sex.s[:, 1], train.s) and torch.equal(sex.s[:, 0], load_adult()[0].s)
    white, _ = load_adult(sensitive="race", privileged="White")
    assert torch.equal(white.s, (train.s == 4).long()) and torch.equal(white.x, train.x)


def test_checksum(monkeypatch):
    monkeypatch.setattr(module, "ADULT_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="damaged or was changed.*Install fairw2_nb again"):
        load_adult()


def test_damaged_or_lost_file(monkeypatch, tmp_path):
    (tmp_path / "data" / "files").mkdir(parents=True)
    monkeypatch.setattr("fairw2_nb.basics.files.files", lambda package: tmp_path)
    with pytest.raises(ValueError, match="not in the installed package"):
        adult_frame()
    whole = (FILES / "adult.csv.gz").read_bytes()
    (tmp_path / "data" / "files" / "adult.csv.gz").write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="damaged"):
        adult_frame()


def test_file_is_small_and_attributed():
    content, note = (FILES / "adult.csv.gz").read_bytes(), (FILES / "LICENSE-adult.md").read_text()
    assert len(content) < 1_000_000 and gzip.decompress(content).count(b"\n") == 48_843
    assert hashlib.sha256(content).hexdigest() == ADULT_SHA256
    for part in (ADULT_SHA256, "CC BY 4.0", "10.24432/C5XW20", "Becker", "Kohavi",
                 "https://creativecommons.org/licenses/by/4.0/"):
        assert part in note
