"""The (x, y, s) contract, splits, tables, Adult inside the package, and the synthetic problem against its formulas."""
import gzip
import hashlib
import pickle
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ROOT
from fairw2_nb import data as fd
from fairw2_nb.data.adult import adult_frame, load_adult
from fairw2_nb.data.dataset import FairDataset
from fairw2_nb.data.synthetic import synthetic_best, synthetic_biased
from fairw2_nb.data.tables import load_table
from fairw2_nb.metrics.disparities import disparate_impact
from fairw2_nb.data.tables import TableEncoder, read_table
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from torch.testing import assert_close
from torch.utils.data import DataLoader, DistributedSampler, Subset, random_split


def toy(n=120, seed=0):
    "A dataset in which column 0 is the row number."
    g = torch.Generator().manual_seed(seed)
    x = torch.column_stack([torch.arange(n), torch.randn(n, 2, generator=g)])
    return FairDataset(x, torch.randint(0, 2, (n,), generator=g), torch.arange(n) % 2, names=["row", "a", "b"])


def table(n=300, seed=0):
    "A table of one's own, complete, with numbers, text and a flag."
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(18, 80, n), "pay": rng.normal(3, 2, n), "job": rng.choice(["clerk", "farm", "sales"], n),
                         "member": rng.random(n) < .3, "sex": rng.choice(["F", "M"], n), "loan": rng.choice(["no", "yes"], n)})


def rows(ds):
    "Row numbers in a part of `toy`."
    return ds.x[:, 0].long().tolist()


@pytest.fixture(scope="module")
def frame():
    return adult_frame()


@pytest.fixture(scope="module")
def adult():
    return load_adult()


# the dataset

def test_items_and_types():
    ds = toy()
    x, y, s = ds[3]
    assert x.dtype == torch.float32 and y.dtype == s.dtype == torch.int64 and x.shape == (3,) and y.ndim == s.ndim == 0
    assert FairDataset(ds.x.double().numpy(), ds.y.bool().tolist(), ds.s.bool()).y.dtype == torch.float32
    assert len(list(ds)) == len(ds) == 120
    with pytest.raises(IndexError):
        ds[120]


@pytest.mark.parametrize("i, want", [(slice(5), range(5)), (slice(None, None, -1), range(119, -1, -1)), ([4, 2], [4, 2]), ([], []), (range(3), range(3)), (np.array([7, 7]), [7, 7]),
                                     (torch.tensor([1, -1]), [1, 119]), (torch.arange(120) < 3, range(3)), (pd.Series([9, 8]), [9, 8]), (np.arange(120) > 117, [118, 119])])
def test_many_rows_give_a_dataset(i, want):
    part = toy()[i]
    assert isinstance(part, FairDataset) and rows(part) == list(want) and part.names == ["row", "a", "b"]
    assert len(part.y) == len(part.s) == len(part) and repr(part).startswith(f"FairDataset: {len(part)} obs")


@pytest.mark.parametrize("i", [2, np.int64(2), torch.tensor(2), -118])
def test_one_row_gives_an_observation(i):
    assert toy()[i][0][0] == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_loader_round_trip(workers):
    ds = toy()
    parts = list(DataLoader(ds, batch_size=50, num_workers=workers))
    for got, want in zip(map(torch.cat, zip(*parts)), ds.tensors):
        assert_close(got, want, rtol=0, atol=0)
    mixed = torch.cat([x for x, _, _ in DataLoader(ds, batch_size=7, shuffle=True)])
    assert sorted(mixed[:, 0].tolist()) == list(range(120))


def test_subset_random_split_and_ranks():
    ds = toy()
    x, y, s = next(iter(DataLoader(Subset(ds, [5, 3, 8]), batch_size=3)))
    assert x[:, 0].tolist() == [5, 3, 8] and torch.equal(y, ds.y[[5, 3, 8]]) and torch.equal(s, ds.s[[5, 3, 8]])
    parts = random_split(ds, [100, 20], generator=torch.Generator().manual_seed(0))
    assert sorted(int(o[0][0]) for part in parts for o in part) == list(range(120))
    loaders = [DataLoader(ds, batch_size=16, sampler=DistributedSampler(ds, num_replicas=3, rank=r, seed=1)) for r in range(3)]
    assert sorted(int(v) for loader in loaders for x, _, _ in loader for v in x[:, 0]) == list(range(120))


@given(st.integers(1, 130), st.none() | st.integers(0, 9))
def test_batches_cover_all_rows_once(size, seed):
    ds, g = toy(), None if seed is None else torch.Generator().manual_seed(seed)
    got = [x[:, 0] for x, _, _ in ds.batches(size, g)]
    assert all(len(b) == min(size, 120) for b in got[:-1]) and sorted(torch.cat(got).tolist()) == list(range(120))
    assert (seed is None) == (torch.cat(got).tolist() == list(range(120)))


def test_images_devices_and_pickles():
    ds = FairDataset(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), [0, 1, 0, 1], [0, 0, 1, 1])
    assert ds[0][0].shape == (1, 8, 8) and ds.x.dtype == torch.float32 and len(ds.to("cpu")) == 4 and ds.to("meta").y.is_meta
    again = pickle.loads(pickle.dumps(toy()))
    assert_close(again.x, toy().x, rtol=0, atol=0)


def test_frame_as_inputs_gives_names_and_is_not_shared():
    inputs = pd.DataFrame({"a": [1., 2.], "b": [3., 4.]})
    ds = FairDataset(inputs, [0, 1], [0, 1])
    ds.x += 1
    assert ds.names == ["a", "b"] and inputs["a"].tolist() == [1., 2.]


GOOD = dict(x=[[1., 2.], [3., 4.], [5., 6.]], y=[0, 1, 1], s=[0, 1, 0])


@pytest.mark.parametrize("change, sentence", [
    (dict(y=[0, 1]), "lengths differ: `x` 3, `y` 2, `s` 3"), (dict(y=["a", "b", "a"]), "`y` must hold 0 and 1 only, but holds 'a', 'b'"),
    (dict(y=[1, 2, 1]), "`y` must hold 0 and 1 only"), (dict(y=[0, 1, np.nan]), "`y` must hold 0 and 1 only"),
    (dict(s=[1, 1, 1]), "one group only, 1"), (dict(s=["F", "M", "F"]), "`s` must hold 0 and 1 only, but holds 'F', 'M'"), (dict(s=[0, 1, 2]), "`s` must hold 0 and 1 only"),
    (dict(s=[0, None, 1]), "`s` is missing for 1 of 3"), (dict(x=[[1, np.nan], [1, 2], [1, np.inf]], names=["age", "pay"]), "2 NaN or infinite values, in column: pay (2)"),
    (dict(x=[[1, np.nan], [1, 2], [1, 2]]), "in column: 1 (1)"), (dict(x=[["a"], ["b"], ["c"]]), "not an array of numbers"), (dict(x=[1, 2, 3]), "one row per observation"),
    (dict(x=[[1], [1, 2], [3]]), "not an array of numbers"), (dict(names=["a"]), "`names` has 1 entries for the 2 columns"), (dict(x=[[1e39, 0]] * 3), "in column: 0 (3)")])
@pytest.mark.filterwarnings("ignore:overflow")
def test_refused(change, sentence):
    with pytest.raises(ValueError) as e:
        FairDataset(**GOOD | change)
    assert sentence in str(e.value)


def test_repr_shows_base_rates():
    ds = FairDataset(np.zeros((4, 1)), [0, 1, 1, 1], [0, 0, 1, 1], groups=("Female", "Male"))
    assert "s = 0 (Female): 2, of which y = 1: 50.0%" in repr(ds) and "s = 1 (Male): 2, of which y = 1: 100.0%" in repr(ds)
    assert "s = 0 (Female): 0" in repr(ds[2:])


# splits

@given(st.integers(0, 1000), st.floats(.1, .9), st.booleans())
def test_splits_are_disjoint_complete_and_repeatable(seed, share, stratify):
    ds = toy()
    train, test = ds.split(share, seed, stratify)
    assert sorted(rows(train) + rows(test)) == list(range(120)) and not set(rows(train)) & set(rows(test))
    assert rows(ds.split(share, seed, stratify)[1]) == rows(test) != rows(ds.split(share, seed + 1, stratify)[1])
    assert abs(len(test) - 120 * share) <= (2 if stratify else .5)


def test_stratified_split_keeps_cells():
    cells = lambda d: [int(((d.y == y) & (d.s == s)).sum()) for y in (0, 1) for s in (0, 1)]
    ds = FairDataset(np.zeros((400, 1)), np.arange(400) < 40, np.arange(400) % 20 == 0)
    assert cells(ds) == [342, 18, 38, 2]
    for seed in range(5):
        train, test = ds.split(.25, seed, stratify=True)
        assert cells(test) == [86, 4, 10, 1] and cells(train) == [256, 14, 28, 1]


@pytest.mark.parametrize("share", [0, 1, 25, -.1])
def test_split_refuses_shares(share):
    with pytest.raises(ValueError, match="between 0 and 1"):
        toy().split(share)


def test_split_without_a_group_says_so():
    ds = FairDataset(np.zeros((50, 1)), np.arange(50) % 2, np.arange(50) == 0)
    with pytest.raises(ValueError, match="test part of 12 rows lacks a group|training part of 38 rows lacks a group"):
        ds.split()


# tables

def test_onehot_matches_pandas_and_scikit_learn():
    t = table()
    e = TableEncoder().fit(t)
    x = pd.DataFrame(e.transform(t), columns=e.names)
    for c in ("job", "sex", "loan"):
        mine = [n for n in e.names if n.startswith(f"{c}=")]
        np.testing.assert_array_equal(x[mine], OneHotEncoder(sparse_output=False).fit_transform(t[[c]]))
        np.testing.assert_array_equal(x[mine], pd.get_dummies(t[[c]], prefix_sep="=", dtype=float)[mine])
    np.testing.assert_allclose(x[["age", "pay", "member"]], StandardScaler().fit_transform(t[["age", "pay", "member"]].astype(float)), rtol=1e-5, atol=1e-6)  # float32


def test_ordinal_matches_scikit_learn():
    t = table()
    e = TableEncoder("ordinal").fit(t)
    numbers = t.assign(**{c: OrdinalEncoder().fit_transform(t[[c]])[:, 0] for c in ("job", "sex", "loan")}).astype(float)
    assert e.names == list(t.columns)
    np.testing.assert_allclose(e.transform(t), StandardScaler().fit_transform(numbers), rtol=1e-5, atol=1e-6)  # float32


def test_encoder_remembers_its_own_table_only():
    a, b = table(200, 0), table(100, 1).assign(pay=lambda d: d.pay + 50)
    e = TableEncoder().fit(a)
    before = e.transform(a)
    np.testing.assert_allclose(e.transform(b)[:, 1], (b.pay - a.pay.mean()) / a.pay.std(ddof=0), rtol=1e-5)
    np.testing.assert_array_equal(e.transform(a), before)
    np.testing.assert_array_equal(e.transform(a[a.columns[::-1]].assign(extra=1)), before)  # order and further columns do not matter
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(e)).transform(a), before)
    np.testing.assert_array_equal(e.transform(a.iloc[:1]), before[:1])


@pytest.mark.parametrize("encoding, width", [("onehot", 2), ("ordinal", 1)])
def test_unseen_category_is_none(encoding, width):
    e = TableEncoder(encoding).fit(pd.DataFrame({"job": ["a", "b", "b"]}))
    new = pd.DataFrame({"job": ["c", "a"]})
    with pytest.warns(UserWarning, match=r"`job` \['c'\] in 1 rows"):
        np.testing.assert_array_equal(e.transform(new)[0], np.zeros(width))
    with pytest.raises(ValueError, match="not seen"):
        e.transform(new, unseen="error")


def test_categorical_keeps_its_order_and_constants_become_zero():
    v = pd.Categorical(["low", "high", "mid"], categories=["low", "mid", "high"], ordered=True)
    e = TableEncoder("ordinal").fit(pd.DataFrame({"v": v, "same": 7}))
    x = e.transform(pd.DataFrame({"v": ["low", "mid", "high"], "same": 7}))
    assert (np.diff(x[:, 0]) > 0).all() and (x[:, 1] == 0).all()


def test_nullable_and_boolean_columns():
    t = pd.DataFrame({"a": pd.array([1, 2, 4], dtype="Int64"), "b": pd.array([True, False, True], dtype="boolean"), "c": pd.array(["x", "y", "x"], dtype="string")})
    assert TableEncoder().fit(t).names == ["a", "b", "c=x", "c=y"] and np.isfinite(TableEncoder().fit(t).transform(t)).all()


def test_own_csv_with_strings_blanks_and_gaps(tmp_path):
    t, path = table(), tmp_path / "mine.csv"
    t.loc[[0, 1], "job"] = "?"
    t["age"] = t["age"].astype(object)
    t.loc[2, "age"] = "?"
    path.write_text("\n".join(", ".join(map(str, r)) for r in [t.columns, *t.to_numpy().tolist()]))
    with pytest.raises(ValueError) as e:
        load_table(path, "loan", "yes", "sex", "M")
    assert "3 of 300 rows have missing values, by column: `job` 2, `age` 1." in str(e.value) and 'missing="drop"' in str(e.value)
    train, test = load_table(path, "loan", "yes", "sex", "M", missing="drop")
    assert (len(train), len(test)) == (223, 74) and train.groups == ("F", "M") and train.encoder.kinds["age"] == "number"
    whole = torch.cat([train.y, test.y]).sum() == (t.iloc[3:].loan == "yes").sum()
    assert whole and len(load_table(str(path), "loan", "yes", "sex", "M", drop=["job", "age"])[0]) == 225


def test_frame_given_is_left_alone():
    t = table().assign(job=" clerk ", note="?")
    kept = t.copy()
    load_table(t, "loan", "yes", "sex", "M", drop="note")
    pd.testing.assert_frame_equal(t, kept)


@pytest.mark.parametrize("change, sentence", [
    (dict(target="laon"), "no column 'laon'. Did you mean 'loan'?"), (dict(sensitive="gender"), "no column 'gender'. There is: 'age'"), (dict(drop=["jobs"]), "no column 'jobs'. Did you mean 'job'?"),
    (dict(favourable="Yes"), "`loan` never is 'Yes'. Did you mean 'yes'?"), (dict(privileged=1), "`sex` never is 1. There is: "), (dict(privileged=["F", "M"]), "privileged covers every value of `sex`"),
    (dict(favourable=lambda v: False), "favourable covers no value of `loan`"), (dict(missing="fill"), 'give "error" or "drop"'), (dict(encoding="hash"), 'give "onehot" or "ordinal"'),
    (dict(test=2), "between 0 and 1"), (dict(max_categories=2), "`job` has 3 different values"), (dict(drop=["age", "pay", "job", "member"]), "No column is left for x"),
    (dict(table=table().assign(sex="F")), "`sex` has one value only, 'F', in 300 complete rows"), (dict(table=table().assign(loan="yes")), "`loan` has one value only"),
    (dict(table=table().assign(name=[f"person {k}" for k in range(300)])), "looks like an identifier or free text, leave it out with drop=['name']"),
    (dict(table=table().assign(sum=[f"{k}" for k in range(300)])), "are numbers as text: use pd.to_numeric"),
    (dict(table=table().assign(born=pd.Timestamp("2001-01-01"))), "`born` holds dates"), (dict(table=table().assign(tags=[[1]] * 300)), "`tags` holds lists"),
    (dict(table=table().iloc[:0]), "no rows"), (dict(table=table().assign(gap=np.nan), missing="drop"), "`gap` 300"),
    (dict(table=pd.concat([table(), table()[["age"]]], axis=1)), "Two columns are called `age`"), (dict(table=table().assign(pay=np.inf)), "NaN or infinite values, in column: pay")])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_tables_refused(change, sentence):
    good = dict(table=table(), target="loan", favourable="yes", sensitive="sex", privileged="M")
    with pytest.raises(ValueError) as e:
        load_table(**good | change)
    assert sentence in str(e.value)


@pytest.mark.parametrize("content, sentence", [(b"", "cannot be read as a CSV"), (b"a,b\n\xff\xfe,1\n", "cannot be read as a CSV"), (b"a,b\n1,2\n1,2,3,4\n", "cannot be read as a CSV"),
                                               (b"sex;loan\nM;yes\n", "Is its separator a comma?")])
def test_files_refused(tmp_path, content, sentence):
    (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(ValueError) as e:
        load_table(tmp_path / "bad.csv", "loan", "yes", "sex", "M")
    assert sentence in str(e.value)


def test_row_number_is_warned_of():
    with pytest.warns(UserWarning, match="`id` differs in every row"):
        load_table(table().assign(id=range(300)), "loan", "yes", "sex", "M")


def test_functions_lists_and_numbers_as_values():
    t = table().assign(loan=lambda d: (d.loan == "yes").astype(int))
    train, test = load_table(t, "loan", 1, "age", lambda a: a >= 25)
    assert "age" not in train.names and sum(int(d.s.sum()) for d in (train, test)) == (t.age >= 25).sum() and train.groups == (0, 1)
    assert load_table(t, "loan", 1, "job", ["farm", "sales"])[0].groups == ("clerk", "not clerk")


# Adult

def test_adult_counts(frame, adult):
    assert frame.shape == (48_842, 15) and len(frame.dropna()) == 45_222
    assert frame.isna().sum()[lambda v: v > 0].to_dict() == {"workclass": 2799, "occupation": 2809, "native-country": 857}
    y, s = (torch.cat([getattr(d, k) for d in adult]) for k in "ys")
    assert [(int(y[s == k].sum()), int((s == k).sum())) for k in (0, 1)] == [(1669, 14_695), (9539, 30_527)]
    assert [len(d) for d in adult] == [33_916, 11_306] and adult[0].groups == ("Female", "Male")


def test_adult_rows_are_the_published_ones(frame):
    assert frame.iloc[0].tolist() == [39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical", "Not-in-family", "White", "Male", 2174, 0, 40, "United-States", "<=50K"]
    assert frame.iloc[32_561, :4].tolist() == [25, "Private", 226_802, "11th"] and (frame.income[:32_561] == ">50K").sum() == 7841 and set(frame.income) == {"<=50K", ">50K"}


@pytest.mark.parametrize("encoding", ["onehot", "ordinal"])
def test_adult_uses_training_statistics_only(encoding, frame):
    train, test = load_adult(encoding, seed=3)
    for name in ("age", "hours-per-week", "capital-gain"):
        k = train.names.index(name)
        assert_close(train.x[:, k].double().mean(), torch.tensor(0., dtype=torch.float64), rtol=0, atol=1e-5)
        assert_close(train.x[:, k].double().std(correction=0), torch.tensor(1., dtype=torch.float64), rtol=1e-5, atol=0)
        assert test.x[:, k].double().mean().abs() > 1e-5
    k = train.names.index("age")
    mean, std = train.encoder.stats["age"]
    ages = torch.cat([train.x[:, k], test.x[:, k]]) * std + mean
    np.testing.assert_allclose(ages.sort().values, np.sort(frame.dropna().age), rtol=1e-5)


@pytest.mark.parametrize("sensitive", ["sex", "race"])
@pytest.mark.parametrize("encoding", ["onehot", "ordinal"])
def test_adult_sensitive_column(sensitive, encoding):
    without, kept = (load_adult(encoding, sensitive, keep_sensitive=k)[0] for k in (False, True))
    of = [k for k, n in enumerate(kept.names) if n.split("=")[0] == sensitive]
    assert not any(n.split("=")[0] == sensitive for n in without.names) and of
    others = [k for k in range(len(kept.names)) if k not in of]
    assert_close(kept.x[:, others], without.x, rtol=0, atol=0)
    copies = ((without.x > without.x.mean(0)).long() == without.s[:, None]).float().mean(0)
    assert ((copies < .95) & (copies > .05)).all()  # no column of x is the group under another name
    assert "income" not in {n.split("=")[0] for n in kept.names}


def test_adult_splits_by_seed():
    a, b, c = load_adult(seed=1)[1], load_adult(seed=1)[1], load_adult(seed=2)[1]
    assert torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and torch.equal(a.s, b.s) and not torch.equal(a.y, c.y)


def test_adult_columns():
    assert load_adult("ordinal", keep_sensitive=True, drop=())[0].x.shape[1] == 14
    names = load_adult("ordinal", drop=("education", "fnlwgt"))[0].names
    assert len(names) == 11 and "fnlwgt" not in names and "education-num" in names
    with pytest.raises(ValueError, match="load_table"):
        load_adult(sensitive="age")


def test_adult_checksum(monkeypatch):
    monkeypatch.setattr(fd, "ADULT_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="damaged or was changed.*Install fairw2_nb again"):
        load_adult()


def test_adult_damaged_or_lost_file(monkeypatch, tmp_path):
    (tmp_path / "data" / "files").mkdir(parents=True)
    monkeypatch.setattr("fairw2_nb.basics.files.files", lambda package: tmp_path)
    with pytest.raises(ValueError, match="not in the installed package"):
        adult_frame()
    whole = (ROOT / "fairw2_nb" / "data" / "files" / "adult.csv.gz").read_bytes()
    (tmp_path / "data" / "files" / "adult.csv.gz").write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="damaged"):
        adult_frame()


def test_adult_file_is_small_and_attributed():
    folder = ROOT / "fairw2_nb" / "data" / "files"
    content, note = (folder / "adult.csv.gz").read_bytes(), (folder / "LICENSE-adult.md").read_text()
    assert len(content) < 1_000_000 and gzip.decompress(content).count(b"\n") == 48_843
    assert hashlib.sha256(content).hexdigest() == fd.ADULT_SHA256
    assert all(part in note for part in (fd.ADULT_SHA256, "CC BY 4.0", "10.24432/C5XW20", "Becker", "Kohavi", "https://creativecommons.org/licenses/by/4.0/"))


def test_wheel_holds_the_data(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "fairw2_nb", source / "fairw2_nb", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "settings.ini", "MANIFEST.in", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path, source], check=True)
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    assert hashlib.sha256(wheel.read("fairw2_nb/data/files/adult.csv.gz")).hexdigest() == fd.ADULT_SHA256
    assert "fairw2_nb/data/files/LICENSE-adult.md" in wheel.namelist()


# the synthetic problem

CASES = pytest.mark.parametrize("means, share, flip", [((-.7, .3), 2 / 3, .1), ((-.2, 1.), .3, .2), ((-1., -.5), .5, 0.), ((.4, .4), .5, .3)])


@CASES
@pytest.mark.parametrize("di", [0., .8, 1.])
def test_best_rule_on_a_sample(means, share, flip, di):
    ds, best = synthetic_biased(200_000, 5, means, share, flip), synthetic_best(di, means, share, flip)
    pred = ds.x[:, 0] > torch.tensor(best["thresholds"])[ds.s]
    acc = (pred == ds.y).float().mean().item()
    assert abs(acc - best["Acc"]) < 5 * (.25 / 200_000) ** .5  # five standard errors
    for k in (0, 1):
        assert abs(pred[ds.s == k].float().mean() - best["rates"][k]) < 5 * (.25 / (ds.s == k).sum()) ** .5
    assert best["DI"] >= di - 1e-12 and abs(disparate_impact(pred, ds.s) - best["DI"]) < .03


@CASES
@pytest.mark.parametrize("di", [.5, .85, 1.])
def test_no_pair_of_thresholds_is_better(means, share, flip, di):
    "A search over thresholds, with accuracies from areas under the normal density."
    t = np.linspace(-4, 4, 1601)
    r = [norm.sf(t - m) for m in means]
    wrong = [abs(norm.sf(t - m) - norm.sf(-m)) for m in means]  # P(g differs from the sign of z)
    acc = 1 - flip - (1 - 2 * flip) * ((1 - share) * wrong[0][:, None] + share * wrong[1])
    ok = np.minimum.outer(r[0], r[1]) >= di * np.maximum.outer(r[0], r[1]) - 1e-12  # rounding, for parity
    assert acc[ok].max() <= synthetic_best(di, means, share, flip)["Acc"] + 1e-11
    assert acc[ok].max() >= synthetic_best(di, means, share, flip)["Acc"] - .01  # steps of .005 in the threshold


def test_synthetic_is_a_draw_from_its_seed():
    a, b, c = synthetic_biased(100, 1), synthetic_biased(100, 1), synthetic_biased(100, 2)
    assert torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and not torch.equal(a.x, c.x) and a.names == ["z", "group", "noise 1", "noise 2"]


@pytest.mark.parametrize("bad", [dict(means=(1, 0)), dict(share=1.), dict(flip=.5), dict(di=1.2)])
def test_formulas_refuse(bad):
    with pytest.raises(ValueError, match="formulas need"):
        synthetic_best(**bad)


def test_read_table_copies():
    t = pd.DataFrame({" a ": [" x", "?"]})
    assert read_table(t)["a"].tolist()[0] == "x" and read_table(t)["a"].isna().tolist() == [False, True] and t[" a "].tolist() == [" x", "?"]
