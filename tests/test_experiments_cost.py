"""Turns and medians with a clock of our own, the truth, memory of known size, rows that resume."""
import os
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from fairw2_nb.basics import packages
from fairw2_nb.experiments import memory, timing
from fairw2_nb.experiments.cost import COST, COSTS, by_contestant, float64_truth
from fairw2_nb.experiments.cost import relative_errors, runnable, time_digits, time_step
from fairw2_nb.experiments.experiment import rows_of, run_rows
from fairw2_nb.experiments.memory import MEMORY
from fairw2_nb.experiments.results import read_rows
from fairw2_nb.experiments.timing import contestants, interleaved, penalty_contest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

linux = pytest.mark.skipif(not os.access(memory.COUNTER, os.W_OK),
                           reason="peak memory is counted on Linux only")


class Clock:
    "A clock that moves only when told to."
    def __init__(self): self.now = 0.

    def perf_counter(self): return self.now


@pytest.fixture
def clock(monkeypatch):
    "The clock of the benchmark, in our hands."
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


@pytest.fixture
def absent(monkeypatch):
    "A function that makes packages look uninstalled."
    real = packages.version

    def hide(*names):
        def version(name):
            if name in names: raise packages.PackageNotFoundError(name)
            return real(name)
        monkeypatch.setattr(packages, "version", version)
    return hide


def timed(clock, seconds, calls, name):
    "A contestant whose k-th call takes the k-th of `seconds`."
    seconds = iter(seconds)

    def run():
        calls.append(name)
        clock.now += next(seconds)
    return run


def test_contestants_take_turns(clock):
    calls = []
    both = {name: timed(clock, [1] * 8, calls, name) for name in "ab"}
    interleaved(both, repeats=3, burst=2)
    assert "".join(calls) == "aabb" * 4 # one round to warm up, and three


def test_median_without_the_first_round(clock):
    seconds = {"a": [100., 1., 5., 2.], "b": [50., 3., 3., 9.]}
    both = {name: timed(clock, times, [], name) for name, times in seconds.items()}
    assert interleaved(both, repeats=3) == {"a": 2., "b": 3.}


def test_a_burst_counts_per_call(clock):
    one = {"a": timed(clock, [9., 9., 1., 3.], [], "a")}
    assert interleaved(one, repeats=1, burst=2) == {"a": 2.}


def by_steps(f, s, p):
    "W_p^p from the quantile functions, interval by interval."
    x, y = np.sort(f[~s]), np.sort(f[s])
    knots = sorted({i / len(z) for z in (x, y) for i in range(len(z) + 1)})
    middle = [(a, b, (a + b) / 2) for a, b in pairwise(knots) if b - a > 1e-12]
    return sum((b - a) * abs(x[int(t * len(x))] - y[int(t * len(y))]) ** p for a, b, t in middle)


def drawn(n_0, n_1, seed):
    "Two groups of scores, mixed."
    rng = np.random.default_rng(seed)
    return rng.random(n_0 + n_1), rng.permutation(np.arange(n_0 + n_1) < n_1)


sizes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))


@given(sizes)
def test_truth_is_the_integral_of_the_quantile_functions(size):
    f, s = drawn(*size)
    scipys = wasserstein_distance(f[~s], f[s])
    assert by_steps(f, s, 1) == pytest.approx(scipys, rel=1e-9, abs=1e-12) # the ruler itself
    assert float64_truth(f, s)[0] == pytest.approx(by_steps(f, s, 2), rel=1e-9, abs=1e-13)


@given(sizes)
def test_truth_gradient_by_finite_differences(size):
    f, s = drawn(*size)
    step = 1e-7
    moves = step * np.eye(len(f))
    numeric = [(by_steps(f + e, s, 2) - by_steps(f - e, s, 2)) / (2 * step) for e in moves]
    np.testing.assert_allclose(float64_truth(f, s)[1], numeric, rtol=1e-5, atol=1e-7)


def test_truth_of_a_shift():
    f = np.random.default_rng(0).random(100)
    value, grad = float64_truth(np.concatenate([f, f + .25]), np.arange(200) >= 100)
    assert value == pytest.approx(.0625, rel=1e-12)
    np.testing.assert_allclose(grad, np.repeat([-.005, .005], 100), rtol=1e-11)


@pytest.mark.parametrize("gap", [0., .5])
def test_errors_are_small_and_the_wrong_is_seen(gap, monkeypatch):
    ours = relative_errors("ours", 3000, gap)
    assert ours["value_error"] < 1e-6 and ours["grad_error"] < 1e-6 and 2900 < ours["kept"] <= 3000

    def wrong_line(x, y):
        groups = torch.arange(len(x) + len(y)) >= len(x)
        return 1.01 * timing.wasserstein_penalty(torch.cat([x, y]), groups)
    monkeypatch.setattr(timing, "autograd_line", wrong_line)
    wrong = relative_errors("autograd", 3000, gap)
    assert wrong["value_error"] == pytest.approx(.01, rel=1e-3)
    assert wrong["grad_error"] == pytest.approx(.01, rel=1e-3)


def test_contestants_agree_where_all_are_exact():
    pytest.importorskip("ot")
    f, s = torch.rand(60, generator=torch.Generator().manual_seed(1)), torch.arange(60) % 2 == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [run() for run in contestants(f, s, 60, ("ours", "POT", "autograd")).values()]
    for value, grad in found[1:]:
        torch.testing.assert_close(value, found[0][0])
        torch.testing.assert_close(grad, found[0][1])


def test_a_reference_takes_part_and_gets_no_gradient():
    f, s = torch.rand(50, generator=torch.Generator().manual_seed(2)), torch.arange(50) % 2 == 1
    value, grad = contestants(f, s, 20, ("ours",))["ours"]()
    assert grad.shape == (20,)
    assert value.item() == pytest.approx(float64_truth(f, s)[0], rel=1e-5)
    assert set(penalty_contest(20, 30, 1, names=("ours", "sort"))) == {"ours", "sort"}


@linux
def test_memory_of_known_size():
    before = memory.forget_peak()
    block = np.ones(2_000_000)
    del block
    assert 15e6 < memory.peak_memory() - before < 20e6 # freed, and counted all the same
    assert 8 * 100_000 < memory.extra_memory("ours", 100_000, 1) < 1000 * 100_000


@linux
def test_memory_in_a_fresh_process():
    assert 12 * 200_000 <= memory.fresh_memory("sort", 200_000, 1) < 40 * 200_000


def test_memory_elsewhere_says_what_is_needed(monkeypatch):
    monkeypatch.setattr(memory.os, "access", lambda *_: False)
    with pytest.raises(ValueError, match="on Linux"):
        memory.forget_peak()
    with pytest.warns(UserWarning, match="need Linux"):
        assert runnable([dict(what="memory", n=50, name="ours")]) == []


def test_a_step_in_a_fresh_process(tmp_path):
    settings = MEMORY.grid(batch=16, size=32)[1:3] # in chunks, plain and with a ring
    frame = run_rows(MEMORY, settings, tmp_path)
    assert (frame.peak_MB > 50).all() and (frame.step_s > 0).all()
    assert MEMORY.table(frame).relative["plain, chunks of 250"] == 1
    assert len(read_rows(tmp_path / "memory.jsonl")) == len(settings)


def quiet_grid(*what):
    "All settings of the benchmark, whatever is installed."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [COST.settle(setting) for setting in COST.grid(what)]


def test_settings_are_unique_and_of_a_known_kind():
    settings = quiet_grid()
    keys = [COST.key(s | COST.label(s, "main")) for s in settings]
    assert len({*keys}) == len(keys)
    assert {s["what"] for s in settings} <= {*COSTS}
    assert {s["what"] for s in quiet_grid("error", "step")} == {"error", "step"}
    with pytest.raises(ValueError, match="expected one of penalty, large"):
        COST.grid(("speed",))


def test_stored_rows_are_still_rows_of_the_benchmark():
    have = {COST.key(row) for row in rows_of(COST).to_dict("records")}
    settings = quiet_grid("epoch", "epoch on MNIST", "step", "error", "large")
    assert all(COST.key(s | COST.label(s, "main")) in have for s in settings)


@pytest.mark.parametrize("package, name", [("geomloss", "sinkhorn"), ("POT", "POT")])
def test_an_absent_package_is_named_with_its_command(absent, package, name):
    absent(package)
    said = f"The rows with {package} are left out.*pip install {package}"
    with pytest.warns(UserWarning, match=said):
        settings = COST.grid()
    kind = {"geomloss": "sinkhorn", "POT": "penalty"}[package]
    assert not any(s["what"] == kind or s.get("name") == name for s in settings)
    assert {"error", "step", "epoch"} <= {s["what"] for s in settings} # the rest is run


def test_rows_name_the_processor_and_resume(tmp_path):
    settings = [dict(what="error", n=40, name=name, gap=.5) for name in ("ours", "autograd")]
    run_rows(COST, settings[:1], tmp_path)
    frame = run_rows(COST, settings, tmp_path)
    assert [*frame.name] == ["ours", "autograd"]
    assert len(read_rows(tmp_path / "cost.jsonl")) == 2
    assert frame.cpu.all() and (frame.cores >= 1).all()
    shown = COST.table(frame)
    assert list(shown.columns) == ["ours", "autograd"] and len(shown) == 1


def test_a_step_of_training():
    assert list(time_step("adult", 100, rounds=1)) == ["plain_us", "ring_us", "reference_us"]
    with pytest.raises(ValueError, match="adult"):
        time_step("transformer", 100)


def test_an_epoch_of_digits(monkeypatch):
    "The digits are trained plain and with a ring of the size that is asked for."
    seen = []

    def train_digits(net, train, preset, **options):
        seen.append((len(train), preset, options["epochs"], options["lam"],
                     options["penalty"].ring.size))
    monkeypatch.setattr("fairw2_nb.experiments.cost.train_digits", train_digits)
    row = time_digits(n=300, reference=70, repeat=0, rounds=2)
    assert seen == [(300, "tiny", 1, 0., 70), (300, "tiny", 1, 1., 70)] * 3
    assert row["ratio"] == row["ring_s"] / row["plain_s"]


def test_units_of_the_table():
    "Seconds and microseconds in one unit, bytes per score, medians of repeats."
    usual = dict(net="", n=10, reference=0, burst=1, gap=.5, name="")
    rows = [usual | dict(what="epoch on MNIST", plain_s=t, ring_s=2 * t) for t in (1., 2., 5.)]
    rows += [usual | dict(what="epoch", plain_us=7., ours_us=8.)]
    rows += [usual | dict(what="memory", name="ours", extra_bytes=250)]
    table = by_contestant(pd.DataFrame(rows)).reset_index().set_index("what")
    assert table.plain["epoch on MNIST"] == 2e6 and table.ring["epoch on MNIST"] == 4e6
    assert table.ours["epoch"] == 8. and table.ours["memory"] == 25.


def test_parts_of_the_benchmark_can_be_drawn():
    rows = rows_of(COST)
    for what in ("error", "memory", "step", "penalty"):
        part = rows[rows.what == what]
        assert len(COST.figure(part).axes) == 3 and len(COST.table(part))
