"""Turns and medians with a clock of our own, the truth against SciPy and finite differences, memory of known size, and rows that can be resumed."""
import json
import os
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from fairw2_nb import contest, cost, peers
from fairw2_nb.experiments.timing import contestants, interleaved, penalty_contest
from fairw2_nb.experiments.cost import cost_configs, cost_run, float64_truth, relative_errors, runnable, step_contest, step_setting
from fairw2_nb.experiments.results import missing, read_rows, run_missing
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

linux = pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="peak memory is counted on Linux only")


class Clock:
    "A clock that moves only when told to."
    def __init__(self): self.now = 0.

    def perf_counter(self): return self.now


@pytest.fixture
def clock(monkeypatch):
    "The clock of the benchmark, in our hands."
    clock = Clock()
    monkeypatch.setattr(contest, "time", clock)
    return clock


@pytest.fixture
def absent(monkeypatch):
    "A function that makes packages look uninstalled."
    real = peers.version

    def hide(*names):
        def version(name):
            if name in names: raise peers.PackageNotFoundError(name)
            return real(name)
        monkeypatch.setattr(peers, "version", version)
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
    interleaved({"a": timed(clock, [1] * 8, calls, "a"), "b": timed(clock, [1] * 8, calls, "b")}, repeats=3, burst=2)
    assert "".join(calls) == "aabb" * 4 # one round to warm up, and three


def test_median_without_the_first_round(clock):
    a, b = [100., 1., 5., 2.], [50., 3., 3., 9.]
    assert interleaved({"a": timed(clock, a, [], "a"), "b": timed(clock, b, [], "b")}, repeats=3) == {"a": 2., "b": 3.}


def test_a_burst_counts_per_call(clock):
    assert interleaved({"a": timed(clock, [9., 9., 1., 3.], [], "a")}, repeats=1, burst=2) == {"a": 2.}


def by_steps(f, s, p):
    "W_p^p from the quantile functions, interval by interval."
    x, y = np.sort(f[~s]), np.sort(f[s])
    knots = sorted({i / len(x) for i in range(len(x) + 1)} | {j / len(y) for j in range(len(y) + 1)})
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
    assert by_steps(f, s, 1) == pytest.approx(wasserstein_distance(f[~s], f[s]), rel=1e-9, abs=1e-12) # the ruler itself
    assert float64_truth(f, s)[0] == pytest.approx(by_steps(f, s, 2), rel=1e-9, abs=1e-13)


@given(sizes)
def test_truth_gradient_by_finite_differences(size):
    f, s = drawn(*size)
    step = 1e-7
    numeric = [(by_steps(f + e, s, 2) - by_steps(f - e, s, 2)) / (2 * step) for e in step * np.eye(len(f))]
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
    monkeypatch.setattr(contest, "autograd_line", lambda x, y: 1.01 * contest.wasserstein_penalty(torch.cat([x, y]), torch.arange(len(x) + len(y)) >= len(x)))
    wrong = relative_errors("autograd", 3000, gap)
    assert wrong["value_error"] == pytest.approx(.01, rel=1e-3) and wrong["grad_error"] == pytest.approx(.01, rel=1e-3)


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
    assert grad.shape == (20,) and value.item() == pytest.approx(float64_truth(f, s)[0], rel=1e-5)
    assert set(penalty_contest(20, 30, 1, names=("ours", "sort"))) == {"ours", "sort"}


@linux
def test_memory_of_known_size():
    before = cost.forget_peak()
    block = np.ones(2_000_000)
    del block
    assert 15e6 < cost.peak_memory() - before < 20e6 # freed, and counted all the same
    assert 8 * 100_000 < cost.extra_memory("ours", 100_000, 1) < 1000 * 100_000


@linux
def test_memory_in_a_fresh_process():
    assert 12 * 200_000 <= cost.fresh_memory("sort", 200_000, 1) < 40 * 200_000


def test_memory_elsewhere_says_what_is_needed(monkeypatch):
    monkeypatch.setattr(cost.os, "access", lambda *_: False)
    with pytest.raises(ValueError, match="on Linux"): cost.forget_peak()
    with pytest.warns(UserWarning, match="need Linux"): assert runnable([dict(what="memory", n=50, name="ours")]) == []


def test_configs_are_unique_and_each_can_be_resumed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        configs = cost_configs()
    assert len({json.dumps(c, sort_keys=True) for c in configs}) == len(configs)
    for k, c in enumerate(configs): assert missing(configs, [dict(c, duration=1.)]) == configs[:k] + configs[k + 1:]


def test_stored_rows_are_still_rows_of_the_benchmark(root):
    rows = read_rows(root / "results" / "cost" / "rows.jsonl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = missing([c for c in cost_configs() if c["what"] == "epoch" or c["what"] == "penalty" and not c["reference"]], rows)
    assert left == []


@pytest.mark.parametrize("package, kinds", [("geomloss", {"sinkhorn"}), ("POT", {"penalty"})])
def test_an_absent_package_is_named_with_its_command(absent, package, kinds):
    absent(package)
    with pytest.warns(UserWarning, match=f"The rows with {package} are left out.*pip install {package}"): configs = cost_configs()
    name = {"geomloss": "sinkhorn", "POT": "POT"}[package]
    assert not any(c["what"] in kinds or c.get("name") == name for c in configs)
    assert {"error", "step", "epoch"} <= {c["what"] for c in configs} # the rest is run


def test_rows_name_the_processor_and_resume(tmp_path):
    configs = [dict(what="error", n=40, name=name, gap=.5) for name in ("ours", "autograd")]
    run_missing(cost_run, configs[:1], tmp_path / "rows.jsonl")
    rows = run_missing(cost_run, configs, tmp_path / "rows.jsonl")
    assert [r["name"] for r in rows] == ["ours", "autograd"] and len(read_rows(tmp_path / "rows.jsonl")) == 2
    assert all(r["cpu"] and r["cores"] >= 1 for r in rows)


def test_a_step_of_training():
    assert list(step_contest("adult", 1, 100)) == ["plain", "ring", "reference"]
    with pytest.raises(ValueError, match="adult"): step_setting("transformer")
