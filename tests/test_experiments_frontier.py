"""Hypervolumes against a grid, peers that are absent, and one short run of every method."""
import itertools
import json
import warnings

import pytest
import torch
from fairw2_nb import peers
from fairw2_nb.data.synthetic import synthetic_biased
from fairw2_nb.experiments.hypervolume import frontier_points, hypervolume, hypervolume_interval
from fairw2_nb.experiments.frontier import STRENGTHS, carry_configs, chosen_rows, epoch_budget, frontier_configs, frontier_run, load_data, ranking
from fairw2_nb.basics.packages import peer_version
from fairw2_nb.experiments.methods import METHODS, find_method, installed_methods
from fairw2_nb.experiments.results import missing, run_missing
from hypothesis import given
from hypothesis import strategies as st

cells = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8)


def small(seed):
    "A problem that every method learns in a moment."
    return synthetic_biased(500, seed=seed).split(.25, seed=seed)


def test_hypervolume_by_hand():
    assert hypervolume([]) == 0 and hypervolume([(.5, .4)]) == pytest.approx(.2)
    assert hypervolume([(.5, .4), (.2, .8)]) == pytest.approx(.2 + .2 * .4)
    assert hypervolume([(.7, .9)], ref=(.75, 0.)) == 0


@given(cells, st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_hypervolume_counts_cells(points, ref):
    counted = sum(any(u < a and v < d for a, d in points) for u in range(ref[0], 20) for v in range(ref[1], 20))
    assert hypervolume(points, ref) == pytest.approx(counted)


@given(cells, st.tuples(st.integers(0, 20), st.integers(0, 20)), st.randoms(use_true_random=False))
def test_hypervolume_grows_and_ignores_order(points, more, random):
    shuffled = random.sample(points, len(points))
    assert hypervolume(shuffled) == pytest.approx(hypervolume(points))
    assert hypervolume(points) <= hypervolume([*points, more]) <= hypervolume(points) + more[0] * more[1] + 1e-9
    assert hypervolume([*points, *points]) == pytest.approx(hypervolume(points))


@given(cells)
def test_lines_add_area_and_do_not_change_a_single_point(points):
    assert hypervolume(points, lines=True) >= hypervolume(points) - 1e-9
    for point in points: assert hypervolume([point], lines=True) == hypervolume([point])


def test_lines_against_numerical_integration():
    points = [(1., .1), (.8, .5), (.3, .9), (.2, .2)]
    grid = [(k + .5) / 9000 * .9 for k in range(9000)]
    front = sorted((d, a) for a, d in points[:3])
    height = lambda d: front[0][1] if d <= front[0][0] else next(a + (b - a) * (d - u) / (v - u) for (u, a), (v, b) in itertools.pairwise(front) if d <= v)
    assert hypervolume(points, lines=True) == pytest.approx(sum(height(d) for d in grid) * 1e-4, rel=1e-4)


def test_configs_are_unique_and_disjoint():
    configs = frontier_configs(methods=list(METHODS)) + carry_configs()
    assert len({json.dumps(c, sort_keys=True) for c in configs}) == len(configs)
    assert all(c["seed"] > 0 for c in configs) # the settings were found on seed 0
    rows = [dict(c, DI=.5) for c in carry_configs()]
    assert missing(frontier_configs(methods=list(METHODS)), rows) == frontier_configs(methods=list(METHODS))


def test_small_tables_are_seen_often_enough():
    assert [epoch_budget(batch, 27133) for batch in (16, 50, 512, 4096)] == [3, 5, 12, 28]
    assert all(epoch_budget(batch, n) * n >= 80_000 for batch in (1, 64, 512) for n in (50, 600, 5000, 100_000))


def test_every_method_has_strengths():
    assert set(STRENGTHS) == set(METHODS) - {"plain"}
    assert {c["method"] for c in frontier_configs(1, methods=list(METHODS))} == set(METHODS)
    assert {c["batch"] for c in frontier_configs(1) if c["method"] == "OxonFair"} <= {512}


def test_an_absent_peer_is_named_with_its_command(monkeypatch):
    def absent(name):
        raise peers.PackageNotFoundError(name)
    monkeypatch.setattr(peers, "version", absent)
    with pytest.raises(ValueError, match=r'pip install fairret, or pip install "fairw2_nb\[peers\]"'):
        frontier_run("fairret", 16, 1., 0, data=small)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        names = installed_methods()
    assert "W2" in names and "fairret" not in names
    assert any("OxonFair is skipped. This method needs oxonfair" in str(w.message) for w in said)


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match="expected one of plain, W2"):
        find_method("W5")
    with pytest.raises(ValueError, match="load_table"):
        load_data("my.csv", 0)


def test_a_table_of_ones_own(tmp_path):
    train, _ = small(0)
    table = tmp_path / "own.csv"
    lines = ["z,noise,hired,sex"] + [f"{x[0]:.4f},{x[2]:.4f},{'yes' if y else 'no'},{'m' if s else 'f'}" for x, y, s in zip(train.x, train.y, train.s)]
    table.write_text("\n".join(lines))
    data = dict(table=str(table), target="hired", favourable="yes", sensitive="sex", privileged="m")
    configs = [dict(method=m, batch=32, strength=1., seed=1, epochs=1, data=data) for m in ("plain", "W2")]
    rows = run_missing(frontier_run, configs, tmp_path / "rows.jsonl")
    assert len(rows) == 2 and run_missing(frontier_run, configs, tmp_path / "rows.jsonl") == rows
    assert all(0 <= r["Acc"] <= 1 and len(r["checksum"]) == 12 and r["torch"] for r in rows)


@pytest.mark.parametrize("name", METHODS)
def test_one_short_run(name):
    method = METHODS[name]
    try:
        peer_version(method.package)
    except ValueError as why:
        pytest.skip(str(why))
    strength = 0. if name == "plain" else STRENGTHS[name][3]
    row = frontier_run(name, 32, strength, 1, epochs=1, data=small)
    again = frontier_run(name, 32, strength, 1, epochs=1, data=small)
    assert json.dumps(row) == json.dumps(again), "the same seed gives the same row"
    assert 0 <= row["Acc"] <= 1 and (row["W2"] is None) == method.decisions
    assert (method.package or "") in row["peer"]


@pytest.mark.parametrize("name", [m for m, v in METHODS.items() if not v.needs_s])
def test_groups_are_not_looked_at_when_predicting(name):
    try:
        peer_version(METHODS[name].package)
    except ValueError as why:
        pytest.skip(str(why))
    (train, test), strength = small(2), 0. if name == "plain" else STRENGTHS[name][4]
    other = test.apply(lambda t: t)
    other.s, other.y = 1 - test.s, 1 - test.y
    torch.testing.assert_close(METHODS[name].run(train, test, 0, 64, strength, epochs=1), METHODS[name].run(train, other, 0, 64, strength, epochs=1))


@pytest.mark.parametrize("compare", [peers.mean_difference, peers.mmd])
@given(st.lists(st.floats(.01, .99), min_size=1, max_size=9), st.lists(st.floats(.01, .99), min_size=1, max_size=9))
def test_penalties_are_symmetric_and_not_negative(compare, a, b):
    a, b = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    assert compare(a, b) >= -1e-12 and abs(compare(a, a)) < 1e-12
    torch.testing.assert_close(compare(a, b), compare(b, a))


def made(seeds=(1, 2, 3), methods=("W2", "fairret")):
    "Rows with known curves: fairret is .01 less accurate everywhere."
    value = lambda m, k, seed: {"Acc": .85 - .01 * (m == "fairret") - .01 * k + .001 * seed, "DI": .4 + .25 * k}
    rows = [dict(method=m, batch=512, strength=float(k), seed=seed, reference=None, majority=.75, W2=.1, EO=.1, **value(m, k, seed)) for seed, m, k in itertools.product(seeds, methods, (1, 2))]
    rows += [dict(method="plain", batch=512, strength=0., seed=seed, reference=None, majority=.75, W2=.2, EO=.1, **value("plain", 0, seed)) for seed in seeds]
    return [r | {f"valid_{k}": r[k] for k in ("Acc", "DI", "W2", "EO")} for r in rows]


def test_intervals_and_order():
    rows = made()
    area, low, high = hypervolume_interval(rows, "W2", 512)
    assert area == pytest.approx(hypervolume(frontier_points(rows, "W2", 512).to_numpy(), (.75, 0.))) and low <= area <= high
    less = hypervolume_interval(rows, "fairret", 512, other="W2")
    assert less[0] < 0 and less[2] < 0
    table = ranking(rows, 512)
    assert list(table.index) == ["W2", "fairret"] and table.verdict["fairret"] == "below"


def test_a_split_with_missing_points_does_not_count():
    part = [r for r in made((1, 2, 3, 4)) if not (r["seed"] == 4 and r["strength"] == 2.)]
    assert hypervolume_interval(part, "W2", 512) == hypervolume_interval(made((1, 2, 3)), "W2", 512)
    assert ranking(made((1, 2)), 512).verdict["fairret"] == "too few splits"
    assert hypervolume_interval([], "W2", 512) is None and ranking([], 512).empty


def test_no_positives_counts_as_zero_and_choice_is_by_the_held_out_part():
    rows = made()
    for r in rows:
        if r["strength"] == 2.:
            r["DI"] = float("nan") # the test part must not matter for the choice
    assert set(chosen_rows(rows, "W2", 512).strength) == {2.}
    assert frontier_points(rows, "W2", 512).DI.min() == 0
