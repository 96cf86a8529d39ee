"""Census income and communities: the packaged files, copies of one's own, groups."""
import gzip
import hashlib

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import LIB
from fairw2_nb.data import census as module
from fairw2_nb.data.census import RACES, census_frame, load_census, load_communities

FILES = LIB / "data" / "files"


@pytest.fixture(scope="module")
def raw():
    return pd.read_csv(FILES / "census.csv.gz")


@pytest.mark.parametrize("name, rows, words", [
    ("census", 20_000, ["U.S. Census Bureau", "2018 American Community Survey", "PUMS",
                        "no attempt", "folktables", "Ding", "MIT"]),
    ("communities", 1_994, ["CC BY 4.0", "10.24432/C53W3X", "Redmond",
                            "https://creativecommons.org/licenses/by/4.0/"]),
])
def test_files_are_small_and_attributed(name, rows, words):
    content = (FILES / f"{name}.csv.gz").read_bytes()
    note = (FILES / f"LICENSE-{name}.md").read_text()
    sha256 = getattr(module, f"{name.upper()}_SHA256")
    assert len(content) < 300_000 and len(gzip.decompress(content).splitlines()) == rows + 1
    assert hashlib.sha256(content).hexdigest() == sha256
    for part in (sha256, f"{len(content):,} bytes", *words):
        assert part in note


def test_groups_are_those_of_the_codes(raw):
    train, test = load_census(sensitive=["race", "sex"])
    n = len(train) + len(test)
    assert n == len(raw) == 20_000 and train.groups["sex"] == ("Female", "Male")
    counts = sum(d.s[:, 0].bincount(minlength=9) for d in (train, test)).tolist()
    by_name = dict(zip(train.groups["race"], counts))
    assert [by_name[name] for name in RACES] == raw.RAC1P.value_counts().sort_index().tolist()
    y, s = (torch.cat([getattr(d, k) for d in (train, test)]) for k in "ys")
    for k, code in ((0, 2), (1, 1)):  # Female, Male
        rate = raw.PINCP[raw.SEX == code].mean()
        assert y[s[:, 1] == k].double().mean().item() == pytest.approx(rate, rel=1e-6)
    assert not {name.split("=")[0] for name in train.names} & {"race", "sex", "income"}


def test_every_code_has_a_place(raw):
    frame = census_frame()
    assert not frame.isna().any().any() and frame.OCCP.nunique() == 25
    at = (raw.OCCP >= 3700) & (raw.OCCP < 4000)
    assert set(frame.OCCP[at]) == {"PRT"} and "PRT" not in set(frame.OCCP[~at])
    assert ((frame.POBP == "US") == (raw.POBP < 100)).all()


def test_copy_of_ones_own(tmp_path, raw, monkeypatch):
    monkeypatch.setenv("FAIRW2_CENSUS", str(tmp_path))
    with pytest.raises(ValueError, match="neither ACSIncome.* nor psam_p.*FAIRW2_CENSUS"):
        load_census(whole=True)
    income = np.where(raw.PINCP == 1, 50_001, 50_000)
    own = raw.assign(PINCP=income, PWGTP=5, extra=0).astype(float)
    young = own.head(50).assign(AGEP=16)
    idle = own.head(50).assign(WKHP=np.nan)
    (tmp_path / "2018").mkdir()
    pd.concat([own, young, idle]).to_csv(tmp_path / "2018" / "psam_p01.csv", index=False)
    a, b = load_census(), load_census(whole=True)
    assert all(torch.equal(u, v) for u, v in zip(a[1].tensors, b[1].tensors))


def test_parquet_without_a_reader(tmp_path, monkeypatch):
    def read_parquet(path):
        raise ImportError
    monkeypatch.setattr(pd, "read_parquet", read_parquet)
    (tmp_path / "ACSIncome.test.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match="pip install pyarrow"):
        census_frame(tmp_path)


def test_parquet_with_codes_from_zero(tmp_path, raw, monkeypatch):
    monkeypatch.setattr(pd, "read_parquet", lambda path: raw.assign(RAC1P=raw.RAC1P - 1))
    (tmp_path / "ACSIncome.test.parquet").write_bytes(b"")
    pd.testing.assert_frame_equal(census_frame(tmp_path), census_frame())


def test_communities():
    table = pd.read_csv(FILES / "communities.csv.gz")
    train, test = load_communities()
    y, s = (torch.cat([getattr(d, k) for d in (train, test)]) for k in "ys")
    assert train.groups == ("more", "fewer") and len(y) == 1994
    assert (y == 0).sum() == (table.ViolentCrimesPerPop > .28).sum()
    assert (s == 0).sum() == (table.racepctblack > .06).sum()
    assert y[s == 0].mean() < y[s == 1].mean() and "racepctblack" not in train.names
