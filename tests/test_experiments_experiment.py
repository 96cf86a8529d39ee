"""Settings, keys, campaigns and tables that all experiments share."""
import hashlib
import os
import sys
import warnings
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace

import fairw2_nb
import numpy as np
import pandas as pd
import pytest
from fairw2_nb.experiments.experiment import (
    Experiment, as_seeds, make_row, mean_sd, one_thread, provenance_line, report, rows_of,
    run_rows)
from fairw2_nb.experiments.results import provenance, read_rows
from hypothesis import given
from hypothesis import strategies as st


def toy_run(seed, lam=1., names=None):
    return {"DI": seed / 10 + lam}


def toy_grid(seeds=3):
    return [dict(seed=k) for k in as_seeds(seeds)]


def toy_table(frame):
    return mean_sd(frame, "lam", ["DI"], "seeds")


TOY = Experiment("toy", "A toy", toy_run, toy_grid, toy_table, "DI: a number.")


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        TOY.name = "other"


def test_rows_of_other_settings_are_left_out_and_order_is_kept(tmp_path):
    run_rows(TOY, toy_grid(), tmp_path)
    frame = run_rows(TOY, [dict(seed=2), dict(seed=0)], tmp_path)
    assert list(frame.seed) == [2, 0]


def test_a_setting_asked_for_twice_is_run_once(tmp_path):
    frame = run_rows(TOY, [dict(seed=1), dict(seed=1, lam=1), dict(seed=1, lam=1.)], tmp_path)
    assert len(frame) == 1 == len(rows_of(TOY, tmp_path))


def test_defaults_are_part_of_the_key(tmp_path):
    "A changed default asks for another row; the default written out does not."
    run_rows(TOY, toy_grid(), tmp_path)
    calls = []

    def run(seed, lam=2., names=None):
        calls.append((seed, lam))
        return {"DI": 0.}
    run_rows(replace(TOY, run=run), [dict(seed=0, lam=1.)], tmp_path)
    assert not calls
    run_rows(replace(TOY, run=run), [dict(seed=0)], tmp_path)
    assert calls == [(0, 2.)]


@pytest.mark.parametrize("change, why", [
    (dict(version=2), "line 1 has version 1, now 2"),
    (dict(data=lambda **_: "other"), "line 1 has data drawn, now other"),
])
def test_rows_of_other_data_or_code_are_named_set_aside_and_run_again(tmp_path, change, why):
    old = run_rows(TOY, toy_grid(2), tmp_path)
    with pytest.warns(UserWarning, match=why):
        frame = run_rows(replace(TOY, **change), toy_grid(1), tmp_path)
    assert frame.version[0] == change.get("version", 1) and len(frame) == 1
    assert list(rows_of(TOY, tmp_path, seed=1).seed) == [1] # not asked for, not touched
    assert read_rows(tmp_path / "toy.jsonl.aside") == [old.iloc[0].to_dict()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_rows(replace(TOY, **change), toy_grid(1), tmp_path)


@pytest.mark.parametrize("version, runs", [("9.9.0", 2), (fairw2_nb.__version__ + "1", 1)])
def test_rows_of_another_release_are_run_again(tmp_path, monkeypatch, version, runs):
    calls = []
    exp = replace(TOY, run=lambda seed: calls.append(seed) or {"DI": 0.})
    run_rows(exp, toy_grid(1), tmp_path)
    here = provenance() | {"fairw2_nb": version}
    monkeypatch.setattr("fairw2_nb.experiments.experiment.provenance", lambda: here)
    with warnings.catch_warnings(record=True) as said: run_rows(exp, toy_grid(1), tmp_path)
    assert len(calls) == runs and len(said) == runs - 1


def test_an_edited_table_returns_no_old_result(tmp_path):
    "The checksum is of the content: neither time stamp nor size tell of the edit."
    table = tmp_path / "my.csv"
    def run(seed): return {"DI": float(table.read_text())}
    exp = replace(TOY, run=run, data=lambda **_: hashlib.sha256(table.read_bytes()).hexdigest())
    table.write_text("0.45")
    times = table.stat().st_mtime_ns, table.stat().st_mtime_ns
    assert list(run_rows(exp, toy_grid(2), tmp_path).DI) == [.45, .45]
    table.write_text("1.00")
    os.utime(table, ns=times)
    with pytest.warns(UserWarning, match="line 1 has data"):
        assert list(run_rows(exp, toy_grid(2), tmp_path).DI) == [1., 1.]
    assert list(rows_of(exp, tmp_path).DI) == [1., 1.]


def test_data_that_change_during_a_run_are_refused(tmp_path):
    seen = iter(["a", "a", "b"])
    exp = replace(TOY, data=lambda **_: next(seen))
    with pytest.raises(ValueError, match="checksum b, and had a when the command began"):
        run_rows(exp, toy_grid(1), tmp_path)
    assert not (tmp_path / "toy.jsonl").exists()


def test_an_altered_row_is_run_again(tmp_path):
    run_rows(TOY, toy_grid(2), tmp_path)
    path = tmp_path / "toy.jsonl"
    path.write_text(path.read_text().replace('"DI": 1.1', '"DI": 9.9'))
    with pytest.warns(UserWarning, match=f"{path}: line 2 was altered"):
        assert list(run_rows(TOY, toy_grid(2), tmp_path).DI) == [1., 1.1]
    assert "9.9" in (tmp_path / "toy.jsonl.aside").read_text()


def test_campaigns_are_kept_apart(tmp_path):
    run_rows(TOY, toy_grid(), tmp_path)
    run_rows(TOY, toy_grid("100-101"), tmp_path, campaign="fresh")
    assert list(rows_of(TOY, tmp_path, "fresh").seed) == [100, 101]
    assert list(rows_of(TOY, tmp_path).seed) == [0, 1, 2]
    assert list(rows_of(TOY, tmp_path, seed=1).seed) == [1]


def test_lists_and_dictionaries_are_settings_too(tmp_path):
    settings = [dict(seed=0, names=names) for names in (["a"], {"b": 1}, None)]
    assert len(run_rows(TOY, settings, tmp_path)) == 3
    assert len(run_rows(TOY, settings, tmp_path)) == 3
    assert len((tmp_path / "toy.jsonl").read_text().splitlines()) == 3


def test_an_unknown_setting_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(TypeError, match="sead"):
        run_rows(TOY, [dict(seed=0, sead=1)], tmp_path)
    assert not (tmp_path / "toy.jsonl").exists()


@pytest.mark.parametrize("name", ["seed", "version", "data", "commit", "duration", "torch"])
def test_results_may_not_hide_settings_or_provenance(name):
    bad = replace(TOY, run=lambda seed: {name: 1})
    with pytest.raises(ValueError, match=f"toy returns {name}"):
        make_row(bad, dict(seed=0), {"data": "drawn"})


def test_a_failing_run_keeps_the_rows_before_it(tmp_path):
    def run(seed):
        if seed == 2: raise RuntimeError("no luck")
        return {"DI": seed}
    bad = replace(TOY, run=run)
    with pytest.raises(RuntimeError, match="no luck"):
        run_rows(bad, toy_grid(4), tmp_path)
    assert list(rows_of(bad, tmp_path).seed) == [0, 1]


def test_warnings_of_single_runs_are_not_shown(tmp_path):
    def run(seed):
        warnings.warn("nobody hears this")
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(run_rows(replace(TOY, run=run), toy_grid(), tmp_path)) == 3


def test_what_is_timed_runs_alone(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("joblib.Parallel", lambda n_jobs, **_: seen.append(n_jobs) or list)
    for timed in (False, True):
        run_rows(replace(TOY, timed=timed), [], tmp_path, workers=2)
    assert seen == [2, 1]


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=20))
def test_the_spread_is_that_of_a_sample(values):
    shown = mean_sd(pd.DataFrame({"kind": 1, "DI": values}), "kind", ["DI"]).DI.iloc[0]
    assert shown == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" or (
        [float(z) for z in shown.split(" ± ")] == pytest.approx(
            [np.mean(values), np.std(values, ddof=1)], abs=.0006))


def test_groups_with_an_undefined_setting_are_shown():
    frame = pd.DataFrame({"seconds": [1., np.nan], "DI": [.5, .7]})
    assert list(mean_sd(frame, "seconds", ["DI"]).DI) == ["0.500", "0.700"]


@pytest.mark.parametrize("seeds, found", [
    (2, [0, 1]), ("2", [0, 1]), ("7-9", [7, 8, 9]), ("5-5", [5]), ([3, 1], [3, 1])])
def test_seeds(seeds, found):
    assert as_seeds(seeds) == found


@pytest.mark.parametrize("seeds", [0, -1, "0", "-2", "9-7", "a", "1-", "", "1-2-3", "1.5"])
def test_bad_seeds_are_refused_in_words(seeds):
    with pytest.raises(ValueError, match="at least 1, or a range such as 100-109"):
        as_seeds(seeds)


def test_the_report_says_where_its_numbers_come_from(tmp_path):
    frame = run_rows(replace(TOY, about="A <toy>"), toy_grid(), tmp_path)
    page = report(replace(TOY, about="A <toy>"), frame)
    assert "A &lt;toy&gt;" in page and "<toy>" not in page and "DI: a number." in page
    assert provenance_line(frame).startswith("3 rows, seeds 0 to 2, campaign main, data drawn.")
    assert "torch" in page and "3 rows" in page and "http" not in page


@pytest.mark.parametrize("there", [True, False])
def test_one_thread_for_torch_imported_or_not(monkeypatch, there):
    set_to = []
    torch = SimpleNamespace(set_num_threads=set_to.append) if there else None
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    one_thread()
    assert (set_to, os.environ["OMP_NUM_THREADS"]) == (([1], "7") if there else ([], "1"))
