"""The (x, y, s) contract: items, loaders, batches, splits, and what is refused."""
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.data.dataset import FairDataset
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.data import DataLoader, DistributedSampler, Subset, random_split


def toy(n=120, seed=0):
    "A dataset in which column 0 is the row number."
    g = torch.Generator().manual_seed(seed)
    x = torch.column_stack([torch.arange(n), torch.randn(n, 2, generator=g)])
    y = torch.randint(0, 2, (n,), generator=g)
    return FairDataset(x, y, torch.arange(n) % 2, names=["row", "a", "b"])


def rows(ds):
    "Row numbers in a part of `toy`."
    return ds.x[:, 0].long().tolist()


def test_items_and_types():
    ds = toy()
    x, y, s = ds[3]
    assert x.dtype == torch.float32 and y.dtype == s.dtype == torch.int64
    assert x.shape == (3,) and y.ndim == s.ndim == 0
    again = FairDataset(ds.x.double().numpy(), ds.y.bool().tolist(), ds.s.bool())
    assert again.y.dtype == torch.float32
    assert len(list(ds)) == len(ds) == 120
    with pytest.raises(IndexError):
        ds[120]


@pytest.mark.parametrize("i, want", [
    (slice(5), range(5)),
    (slice(None, None, -1), range(119, -1, -1)),
    ([4, 2], [4, 2]),
    ([], []),
    (range(3), range(3)),
    (np.array([7, 7]), [7, 7]),
    (torch.tensor([1, -1]), [1, 119]),
    (torch.arange(120) < 3, range(3)),
    (pd.Series([9, 8]), [9, 8]),
    (np.arange(120) > 117, [118, 119]),
])
def test_many_rows_give_a_dataset(i, want):
    part = toy()[i]
    assert isinstance(part, FairDataset) and rows(part) == list(want)
    assert part.names == ["row", "a", "b"]
    assert len(part.y) == len(part.s) == len(part)
    assert repr(part).startswith(f"FairDataset: {len(part)} obs")


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


def test_subset_and_random_split():
    ds, some = toy(), [5, 3, 8]
    x, y, s = next(iter(DataLoader(Subset(ds, some), batch_size=3)))
    assert x[:, 0].tolist() == some
    assert torch.equal(y, ds.y[some]) and torch.equal(s, ds.s[some])
    parts = random_split(ds, [100, 20], generator=torch.Generator().manual_seed(0))
    assert sorted(int(o[0][0]) for part in parts for o in part) == list(range(120))


def test_ranks_share_the_rows():
    ds = toy()
    samplers = [DistributedSampler(ds, num_replicas=3, rank=r, seed=1) for r in range(3)]
    loaders = [DataLoader(ds, batch_size=16, sampler=sampler) for sampler in samplers]
    seen = [int(v) for loader in loaders for x, _, _ in loader for v in x[:, 0]]
    assert sorted(seen) == list(range(120))


@given(st.integers(1, 130), st.none() | st.integers(0, 9))
def test_batches_cover_all_rows_once(size, seed):
    g = None if seed is None else torch.Generator().manual_seed(seed)
    got = [x[:, 0] for x, _, _ in toy().batches(size, g)]
    assert all(len(b) == min(size, 120) for b in got[:-1])
    assert sorted(torch.cat(got).tolist()) == list(range(120))
    assert (seed is None) == (torch.cat(got).tolist() == list(range(120)))


def test_images_devices_and_pickles():
    ds = FairDataset(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), [0, 1, 0, 1], [0, 0, 1, 1])
    assert ds[0][0].shape == (1, 8, 8) and ds.x.dtype == torch.float32
    assert len(ds.to("cpu")) == 4 and ds.to("meta").y.is_meta
    again = pickle.loads(pickle.dumps(toy()))
    assert_close(again.x, toy().x, rtol=0, atol=0)


def test_frame_as_inputs_gives_names_and_is_not_shared():
    inputs = pd.DataFrame({"a": [1., 2.], "b": [3., 4.]})
    ds = FairDataset(inputs, [0, 1], [0, 1])
    ds.x += 1
    assert ds.names == ["a", "b"] and inputs["a"].tolist() == [1., 2.]


@pytest.mark.parametrize("change, sentence", [
    (dict(y=[0, 1]), "lengths differ: `x` 3, `y` 2, `s` 3"),
    (dict(y=["a", "b", "a"]), "`y` must hold 0 and 1 only, but holds 'a', 'b'"),
    (dict(y=[1, 2, 1]), "`y` must hold 0 and 1 only"),
    (dict(y=[0, 1, np.nan]), "`y` must hold 0 and 1 only"),
    (dict(s=[1, 1, 1]), "one group only, 1"),
    (dict(s=["F", "M", "F"]), "`s` must hold 0 and 1 only, but holds 'F', 'M': write `s == priv"),
    (dict(s=[0, 1, 2]), "`s` must hold 0 and 1 only"),
    (dict(s=[0, None, 1]), "`s` is missing for 1 of 3"),
    (dict(x=[[1, np.nan], [1, 2], [1, np.inf]], names=["age", "pay"]),
     "2 NaN or infinite values, in column: pay (2)"),
    (dict(x=[[1, np.nan], [1, 2], [1, 2]]), "in column: 1 (1)"),
    (dict(x=[["a"], ["b"], ["c"]]), "not an array of numbers"),
    (dict(x=[1, 2, 3]), "one row per observation"),
    (dict(x=[[1], [1, 2], [3]]), "not an array of numbers"),
    (dict(names=["a"]), "`names` has 1 entries for the 2 columns"),
    (dict(x=[[1e39, 0]] * 3), "in column: 0 (3)"),
])
@pytest.mark.filterwarnings("ignore:overflow")
def test_refused(change, sentence):
    good = dict(x=[[1., 2.], [3., 4.], [5., 6.]], y=[0, 1, 1], s=[0, 1, 0])
    with pytest.raises(ValueError) as e:
        FairDataset(**good | change)
    assert sentence in str(e.value)


def test_repr_shows_base_rates():
    ds = FairDataset(np.zeros((4, 1)), [0, 1, 1, 1], [0, 0, 1, 1], groups=("Female", "Male"))
    assert "s = 0 (Female): 2, of which y = 1: 50.0%" in repr(ds)
    assert "s = 1 (Male): 2, of which y = 1: 100.0%" in repr(ds)
    assert "s = 0 (Female): 0" in repr(ds[2:])


# splits

@given(st.integers(0, 1000), st.floats(.1, .9), st.booleans())
def test_splits_are_disjoint_complete_and_repeatable(seed, share, stratify):
    ds = toy()
    train, test = ds.split(share, seed, stratify)
    assert sorted(rows(train) + rows(test)) == list(range(120))
    assert not set(rows(train)) & set(rows(test))
    assert rows(ds.split(share, seed, stratify)[1]) == rows(test)
    assert rows(ds.split(share, seed + 1, stratify)[1]) != rows(test)
    assert abs(len(test) - 120 * share) <= (2 if stratify else .5)


def cells(d):
    "How many observations each cell (y, s) has."
    return [int(((d.y == y) & (d.s == s)).sum()) for y in (0, 1) for s in (0, 1)]


def test_stratified_split_keeps_cells():
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
    sentence = "(test part of 12|training part of 38) rows lacks a group"
    with pytest.raises(ValueError, match=sentence):
        ds.split()
