"References: what a ring keeps, for how long, in which precision, and through a checkpoint."
import copy
import io

import numpy as np
import pytest
import torch
from fairw2_nb.penalty.loss import WassersteinPenalty
from fairw2_nb.penalty.references import as_reference, AutoRing, Fresh, jumped, Ring
from hypothesis import given, strategies as st
from scipy.stats import ttest_ind

SIZES = {"number": 60, "auto": "auto"}


def batch(n, rng, k=2, dtype=torch.float32, shift=0.):
    "Scores, group codes and labels."
    f = torch.tensor(rng.random(n) + shift, dtype=dtype)
    return f, torch.tensor(rng.integers(0, k, n)), torch.tensor(rng.integers(0, 2, n))


@pytest.fixture
def rng(): return np.random.default_rng(0)


def expected_rows(batches, auto):
    "By a loop over all scores that were ever pushed: which (batch, place) pairs are remembered."
    n_last = len(batches[-1][0])
    recent = max(1, min(16, -(-256 // n_last)))
    rows, newer = [], {}
    for age, (f, s, _) in enumerate(reversed(batches)):
        for place in reversed(range(len(f))):
            group = int(s[place])
            of_rare = newer.get(group, 0) < auto.least and age < auto.oldest
            if age < recent or of_rare: rows.append(f[place].item())
            newer[group] = newer.get(group, 0) + 1
    return sorted(rows)


@given(st.integers(1, 300), st.integers(1, 5), st.integers(0, 100))
def test_auto_keeps_recent_batches_and_more_of_rare_groups(n, k, seed):
    rng, auto, batches = np.random.default_rng(seed), AutoRing(), []
    for _ in range(70 if n < 20 else 8):
        f, s, y = batch(n, rng, k)
        s[rng.random(n) < .8] = 0 # the other groups are rare
        batches.append((f, s, y))
        auto.push(*batches[-1])
        if len(auto.filled()[0]) == n and n < 256: batches = batches[-1:] # a jump by chance
    assert sorted(auto.filled()[0].tolist()) == expected_rows(batches, auto)


@given(st.integers(9, 60), st.integers(2, 30), st.floats(0, 3), st.integers(0, 50))
def test_a_jump_is_a_t_statistic(n_old, n_new, shift, seed):
    rng = np.random.default_rng(seed)
    old, new = rng.normal(0, 1, n_old), rng.normal(shift, 1, n_new)
    f = np.concatenate([old, new]) + 1e6
    t = abs(ttest_ind(old, new).statistic)
    for s in (np.zeros(len(f), dtype=int), np.full(len(f), 7)):
        if abs(t - 4) > 1e-3: assert jumped(f, s, n_old) == (t > 4)
    tensors = torch.tensor(f), torch.tensor(s)
    assert jumped(*tensors, n_old) == jumped(f, s, n_old)


def test_a_jump_of_one_group_drops_all(rng):
    auto = AutoRing()
    for _ in range(10): auto.push(*batch(40, rng))
    f, s, y = batch(40, rng)
    f[s == 1] += 2
    auto.push(f, s, y)
    assert torch.equal(auto.filled()[0], f) and torch.equal(auto.filled()[1], s)


def test_false_alarms_are_rare(rng):
    "Skewed scores of one law: the ring is hardly ever dropped."
    auto, drops = AutoRing(), 0
    for k in range(2000):
        auto.push(torch.tensor(rng.beta(.3, 3, 16)), torch.tensor(rng.random(16) < .2))
        drops += k > 0 and len(auto.filled()[0]) == 16
    assert drops < 60


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_nothing_is_lost_of_the_scores(size, dtype, rng):
    ring, offset = as_reference(size), 1e8 if dtype == torch.float64 else 0.
    f, s, y = batch(30, rng, dtype=dtype, shift=offset)
    for part in (slice(0, 20), slice(20, 30)): ring.push(f[part], s[part].bool(), y[part])
    kept, groups, labels = ring.filled()
    assert torch.equal(kept.to(dtype), f) and groups.dtype == torch.bool
    assert torch.equal(labels, y.to(labels))


def test_float64_far_from_zero_has_the_value_of_an_explicit_reference(rng):
    "In single precision half of this distance was lost."
    first, second = batch(100, rng, dtype=torch.float64), batch(100, rng, dtype=torch.float64)
    for size in SIZES.values():
        values = []
        for offset in (0., 1e8):
            penalty = WassersteinPenalty(reference=size)
            penalty(first[0] + offset, first[1])
            values.append(penalty(second[0] + offset, second[1]).item())
        assert abs(values[1] / values[0] - 1) < 1e-5


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_never_gets_in(size, bad, rng):
    penalty = WassersteinPenalty(reference=size)
    f, s, _ = batch(40, rng)
    penalty(f, s)
    before = penalty.ring.filled()[0].clone()
    with pytest.raises(ValueError, match="NaN or infinite"):
        penalty(torch.where(torch.arange(40) == 3, bad, f), s)
    assert torch.equal(penalty.ring.filled()[0], before)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_checkpoint_goes_on_bit_for_bit(size, dtype, rng):
    penalty, other = (WassersteinPenalty(reference=size) for _ in range(2))
    batches = [batch(25, rng, dtype=dtype) for _ in range(12)]
    for f, s, y in batches[:6]: penalty(f, s, y)
    file = io.BytesIO()
    torch.save(penalty.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    third = copy.deepcopy(penalty)
    for f, s, y in batches[6:]:
        assert len({p(f, s, y).item() for p in (penalty, other, third)}) == 1
    for a, b in zip(penalty.ring.filled(), other.ring.filled()):
        assert torch.equal(a, b) and a.dtype == b.dtype


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_reset_forgets_all(size, rng):
    penalty, (f, s, y) = WassersteinPenalty(reference=size), batch(30, rng)
    penalty(*batch(30, rng))
    penalty.reset()
    assert len(penalty.ring.filled()[0]) == 0 and not int(penalty.ring.seen)
    assert penalty(f, s) == WassersteinPenalty(reference=0)(f, s)


def test_rings_of_other_sizes_are_not_loaded():
    with pytest.raises(RuntimeError, match="size mismatch"):
        Ring(5).load_state_dict(Ring(6).state_dict())
    with pytest.raises(RuntimeError, match="born"):
        AutoRing().load_state_dict(Ring(6).state_dict())


def test_what_a_reference_may_be():
    assert as_reference(0) is as_reference(None) is as_reference(False) is None
    own = Ring(3)
    assert as_reference(own) is own and as_reference(9).size == 9
    assert as_reference(Fresh(5)) == Fresh(5) and type(as_reference("auto")) is AutoRing
    for wrong in ("Auto", 2.5, -1, True, [3], Ring):
        with pytest.raises(ValueError, match="whole number"): as_reference(wrong)


@pytest.mark.parametrize("reference", [60, "auto"])
def test_what_given_skips_does_not_enter_a_ring_as_nan(rng, reference):
    penalty = WassersteinPenalty(given=1, reference=reference)
    f, s, y = batch(40, rng)
    penalty(f, s, y)
    kept = penalty.ring.filled()[0].clone()
    f[(y == 0).nonzero()[0]] = float("nan")
    with pytest.raises(ValueError, match="`scores` holds 1 NaN or infinite of 40"):
        penalty(f, s, y)
    assert torch.equal(penalty.ring.filled()[0], kept)
    large = torch.full((40,), 6e4, dtype=torch.float16) # whose sum is not finite in half precision
    WassersteinPenalty(reference=reference)(large, s)
