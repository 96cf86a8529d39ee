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
    (dict(s=["F", "X", "F"], groups=("F", "M")), "`s` holds 'X', and `groups` names 'F', 'M'"),
    (dict(s=[0, 1, 2], groups=("F", "M")), "`s` holds 0, 1, 2, and `groups` names 'F', 'M'"),
    (dict(s=np.array([[0, 1], [1, np.nan], [0, 1]])), "`s: 1` is missing for 1 of 3"),
    (dict(s=np.eye(3), groups=("F", "M")), "`s` has 3 attributes: give `groups` as a dictionary"),
    (dict(x=np.array([[1j, 0]] * 3)), "`x` holds complex numbers"),
    (dict(x=torch.full((3, 2), 1e300, dtype=torch.float64)), "beyond 3e38 count as infinite"),
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


# many groups

kinds = {
    "text": lambda k: np.array(["a", "b", "c", "d"])[k],
    "categories": lambda k: pd.Categorical.from_codes(k, ["a", "b", "c", "d"]),
    "numbers": lambda k: 10. * k,
    "tuples": lambda k: [("x", int(v)) for v in k],
    "tensor": lambda k: torch.as_tensor(k) - 7,
}


@pytest.mark.parametrize("wrap", kinds.values(), ids=kinds)
def test_any_labels_become_codes(wrap):
    k = np.random.default_rng(0).integers(0, 4, 60)
    ds = FairDataset(np.zeros((60, 1)), k % 2, wrap(k))
    assert ds.s.dtype == torch.int64 and ds.s.tolist() == k.tolist() and len(ds.groups) == 4
    again = FairDataset(np.zeros((60, 1)), k % 2, wrap(k), groups=ds.groups[::-1])
    assert again.s.tolist() == (3 - k).tolist()
    assert FairDataset(np.zeros((60, 1)), k % 2, ds.s, groups="wxyz").groups == tuple("wxyz")


def test_two_groups_are_as_they_were():
    x, y, s = np.zeros((6, 1)), [0, 1] * 3, [1, 1, 0, 0, 1, 0]
    for same in (s, np.array(s, bool), torch.tensor(s).float(), pd.Series(s, dtype="Int64")):
        ds = FairDataset(x, y, same)
        assert ds.s.tolist() == s and ds.groups == (0, 1)
    words = np.array(["F", "M"])[s]
    assert FairDataset(x, y, words).s.tolist() == s
    assert FairDataset(x, y, words, groups=("M", "F")).s.tolist() == [1 - k for k in s]


@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.integers(0, 99))
def test_crossed_tells_all_combinations_apart(sizes, seed):
    rng = np.random.default_rng(seed)
    s = np.vstack([np.column_stack([np.arange(4) % k for k in sizes]),
                   np.column_stack([rng.integers(0, k, 50) for k in sizes])])
    ds = FairDataset(np.zeros((54, 1)), np.arange(54) % 2, s)
    one = ds.crossed()
    assert one.s.tolist() == np.ravel_multi_index(s.T, sizes).tolist()
    assert [one.groups[k] for k in one.s] == [", ".join(map(str, row)) for row in s]
    assert one.crossed().s is one.s and ds[5:].crossed().s.tolist() == one.s[5:].tolist()


def test_too_many_combinations():
    s = np.column_stack([np.arange(200) % 40, np.arange(200) % 50])
    with pytest.raises(ValueError, match="40 x 50 groups make 2,000 combinations"):
        FairDataset(np.zeros((200, 1)), np.arange(200) % 2, s).crossed()


@given(st.integers(0, 99), st.booleans())
def test_split_of_many_groups(seed, columns):
    k = np.random.default_rng(1).choice(5, 400, p=[.6, .2, .1, .06, .04])
    s = np.column_stack([k, k % 2]) if columns else k
    ds = FairDataset(np.arange(400.)[:, None], np.arange(400) % 4 == 0, s)
    train, test = ds.split(.25, seed, stratify=True)
    cell = torch.column_stack([ds.y.long(), ds.s])
    for row in cell.unique(dim=0):
        n, m = ((torch.column_stack([d.y.long(), d.s]) == row).all(1).sum() for d in (ds, test))
        assert abs(m - n / 4) <= .75 and 0 < m < n
    assert sorted(train.x[:, 0].tolist() + test.x[:, 0].tolist()) == list(range(400))


def test_small_and_absent_groups_are_named():
    k = np.arange(60) % 3 * (np.arange(60) != 5)
    with pytest.warns(UserWarning, match="`s`: 'd' of 4 groups have no member"):
        FairDataset(np.zeros((60, 1)), k % 2, k, groups="abcd")
    with pytest.warns(UserWarning, match="`s`: 3 of 4 groups have one member only"):
        ds = FairDataset(np.zeros((60, 1)), k % 2, np.where(np.arange(60) == 7, 3, k))
    with pytest.warns(UserWarning, match="part of .* lacks a group"):
        ds.split()
