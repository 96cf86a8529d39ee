"""Hypervolumes against a grid, peers that are absent, and one short run of every method."""
import itertools
import json
import warnings

import pytest
import torch
from fairw2_nb.basics import packages
from fairw2_nb.basics.packages import peer_version
from fairw2_nb.data.synthetic import synthetic_biased
from fairw2_nb.experiments import peers
from fairw2_nb.experiments.experiment import rows_of, run_rows
from fairw2_nb.experiments.frontier import FRONTIER, chosen_rows, chosen_table, epoch_budget
from fairw2_nb.experiments.frontier import frontier_run, load_data
from fairw2_nb.experiments.hypervolume import frontier_points, hypervolume
from fairw2_nb.experiments.methods import METHODS, find_method, installed_methods, own_scores
from fairw2_nb.experiments.peers import Job
from fairw2_nb.experiments.results import read_rows
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore") # from inside the peers
some = st.lists(st.floats(.01, .99), min_size=1, max_size=9)
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
    grid = itertools.product(range(ref[0], 20), range(ref[1], 20))
    counted = sum(any(u < a and v < d for a, d in points) for u, v in grid)
    assert hypervolume(points, ref) == pytest.approx(counted)


@given(cells, st.tuples(st.integers(0, 20), st.integers(0, 20)), st.randoms(use_true_random=False))
def test_hypervolume_grows_and_ignores_order(points, more, random):
    shuffled = random.sample(points, len(points))
    assert hypervolume(shuffled) == pytest.approx(hypervolume(points))
    grown = hypervolume([*points, more])
    assert hypervolume(points) <= grown <= hypervolume(points) + more[0] * more[1] + 1e-9
    assert hypervolume([*points, *points]) == pytest.approx(hypervolume(points))


@given(cells)
def test_lines_add_area_and_do_not_change_a_single_point(points):
    assert hypervolume(points, lines=True) >= hypervolume(points) - 1e-9
    for point in points: assert hypervolume([point], lines=True) == hypervolume([point])


def test_lines_against_numerical_integration():
    points = [(1., .1), (.8, .5), (.3, .9), (.2, .2)]
    grid = [(k + .5) / 9000 * .9 for k in range(9000)]
    front = sorted((d, a) for a, d in points[:3])

    def height(d):
        if d <= front[0][0]:
            return front[0][1]
        (u, a), (v, b) = next(pair for pair in itertools.pairwise(front) if d <= pair[1][0])
        return a + (b - a) * (d - u) / (v - u)
    integral = sum(height(d) for d in grid) * 1e-4
    assert hypervolume(points, lines=True) == pytest.approx(integral, rel=1e-4)


def test_settings_are_unique_and_have_their_rows():
    settings = [FRONTIER.settle(s) for s in FRONTIER.grid(methods=list(METHODS))]
    keys = {FRONTIER.key(s | FRONTIER.label(s, "main")) for s in settings}
    assert len(keys) == len(settings) == len(rows_of(FRONTIER))
    assert all(s["seed"] > 0 for s in settings) # the settings were found on seed 0
    assert {s["seed"] for s in FRONTIER.grid("100-101", methods=["W2"])} == {100, 101}


def test_small_tables_are_seen_often_enough():
    assert [epoch_budget(batch, 27133) for batch in (16, 50, 512, 4096)] == [3, 5, 12, 28]
    for batch, n in itertools.product((1, 64, 512), (50, 600, 5000, 100_000)):
        assert epoch_budget(batch, n) * n >= 80_000


def test_every_method_has_strengths():
    assert all(method.strengths for name, method in METHODS.items() if name != "plain")
    settings = FRONTIER.grid(1, methods=list(METHODS))
    assert {s["method"] for s in settings} == set(METHODS)
    assert {s["batch"] for s in settings if s["method"] == "OxonFair"} == {512}


def test_an_absent_peer_is_named_with_its_command(monkeypatch):
    def absent(name):
        raise packages.PackageNotFoundError(name)
    monkeypatch.setattr(packages, "version", absent)
    command = r'pip install fairret, or pip install "fairw2_nb\[peers\]"'
    with pytest.raises(ValueError, match=command):
        frontier_run("fairret", 16, 1., 0, table=small)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        names = installed_methods()
    assert "W2" in names and "fairret" not in names
    skipped = "OxonFair is skipped. This method needs oxonfair"
    assert any(skipped in str(w.message) for w in said)


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match="expected one of plain, W2"):
        find_method("W5")
    with pytest.raises(ValueError, match="load_table"):
        load_data("my.csv", 0)


@pytest.fixture
def own(tmp_path):
    "A table of one's own, and the words that say which column is what."
    train, _ = small(0)
    lines = ["z,noise,hired,sex"]
    for x, y, s in zip(train.x, train.y, train.s):
        lines.append(f"{x[0]:.4f},{x[2]:.4f},{int(y)},{'m' if s else 'f'}")
    table = tmp_path / "own.csv"
    table.write_text("\n".join(lines))
    return dict(table=str(table), target="hired", favourable="1", sensitive="sex", privileged="m")


def test_a_table_of_ones_own(own, tmp_path):
    settings = FRONTIER.grid(1, (512,), ["plain", "W2"], **own, drop=("noise",))
    data = own | dict(favourable=1, drop=["noise"], missing="drop")
    assert all(s["table"] == data and s["reference"] is None for s in settings)
    asked = [s | dict(epochs=1) for s in settings[:2]]
    frame = run_rows(FRONTIER, asked, tmp_path)
    assert run_rows(FRONTIER, asked, tmp_path).equals(frame)
    assert len(read_rows(tmp_path / "frontier.jsonl")) == 2
    assert frame.Acc.between(0, 1).all() and (frame.checksum.str.len() == 12).all()
    assert len(FRONTIER.table(frame)) == 1 and FRONTIER.figure(frame).axes


def test_a_changed_table_is_another(own):
    before = FRONTIER.data(table=own)
    with open(own["table"], "a") as f:
        f.write("\n1,1,1,m")
    assert FRONTIER.data(table=own) != before != FRONTIER.data(table="adult")


@pytest.mark.parametrize("words, said", [
    (dict(table="own.csv", target="hired"), "needs --favourable, --sensitive, --privileged as we"),
    (dict(target="hired"), "needs --table, --favourable"),
    (dict(table="own.csv", target="a", favourable="1", sensitive="b", privileged="1"),
     "There is no file own.csv"),
])
def test_a_table_half_described_is_refused(words, said):
    with pytest.raises(ValueError, match=said):
        FRONTIER.grid(**words)


def strength_of(name, k):
    "One of the strengths of a method, or a skip if its package is absent."
    try:
        peer_version(METHODS[name].package)
    except ValueError as why:
        pytest.skip(str(why))
    return 0. if name == "plain" else METHODS[name].strengths[k]


@pytest.mark.parametrize("name", METHODS)
def test_one_short_run(name):
    method, strength = METHODS[name], strength_of(name, 3)
    row = frontier_run(name, 32, strength, 1, epochs=1, table=small)
    again = frontier_run(name, 32, strength, 1, epochs=1, table=small)
    assert json.dumps(row) == json.dumps(again), "the same seed gives the same row"
    assert 0 <= row["Acc"] <= 1 and (row["W2"] is None) == method.decisions
    assert (row["valid_W2"] is None) == method.decisions
    assert (method.package or "") in row["peer"]


@pytest.mark.parametrize("name", [m for m, v in METHODS.items() if not v.needs_s])
def test_groups_are_not_looked_at_when_predicting(name):
    (train, test), strength = small(2), strength_of(name, 4)
    other = test.apply(lambda t: t)
    other.s, other.y = 1 - test.s, 1 - test.y
    scores = [METHODS[name].run(Job(train, part, 0, 64, strength, 1)) for part in (test, other)]
    torch.testing.assert_close(*scores)


def test_variants_differ_in_what_they_say(monkeypatch):
    "What each variant of ours hands on to the one training loop."
    seen = {}

    def penalised(job, penalty, lam, **options):
        seen[variant] = penalty, lam, options, len(job.train)
    monkeypatch.setattr("fairw2_nb.experiments.methods.penalised", penalised)
    job = Job(*small(0), seed=0, batch=8, strength=3., epochs=10)
    for variant in ("", "fresh", "growing", "last weights", "chosen epoch"):
        own_scores(job, variant)
    n = len(job.train)
    assert seen[""][0].ring.size == 512 and seen[""][1:] == (3., {}, n)
    assert seen["fresh"][0].fresh == n and not seen["fresh"][0].ring # no more than there are
    assert seen["growing"][1].lam < 3. and seen["last weights"][2] == {"average": 0.}
    _, lam, options, part = seen["chosen epoch"]
    assert (lam, options["patience"], options["average"]) == (3., 10, 0.)
    assert part + len(options["valid"]) == n


@pytest.mark.parametrize("compare", [peers.mean_difference, peers.mmd])
@given(some, some)
def test_penalties_are_symmetric_and_not_negative(compare, a, b):
    a, b = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    assert compare(a, b) >= -1e-12 and abs(compare(a, a)) < 1e-12
    torch.testing.assert_close(compare(a, b), compare(b, a))


def made(seeds=(1, 2, 3), methods=("W2", "fairret")):
    "Rows with known curves: fairret is .01 less accurate everywhere."
    runs = [(m, k, seed) for seed, m, k in itertools.product(seeds, methods, (1, 2))]
    rows = []
    for m, k, seed in runs + [("plain", 0, seed) for seed in seeds]:
        found = {"Acc": .85 - .01 * (m == "fairret") - .01 * k + .001 * seed, "DI": .4 + .25 * k,
                 "W2": .1, "EO": .1}
        rows.append(dict(method=m, batch=512, strength=float(k), seed=seed, reference=None,
                         majority=.75) | found | {f"valid_{c}": v for c, v in found.items()})
    return rows


def test_no_positives_counts_as_zero_and_choice_is_by_the_held_out_part():
    rows = made()
    for r in rows:
        if r["strength"] == 2.:
            r["DI"] = float("nan") # the test part must not matter for the choice
    assert set(chosen_rows(rows, "W2", 512).strength) == {2.}
    assert frontier_points(rows, "W2", 512).DI.min() == 0


def test_spread_is_that_of_a_sample():
    "± is the standard deviation with n - 1, over the splits on which the wish was reached."
    table = chosen_table(made(), 512)
    assert table.Acc["W2"] == "0.832 ± 0.001" # .831, .832, .833
    assert table.reached.to_dict() == {"W2": "3 of 3", "fairret": "3 of 3"}
    assert chosen_table(made(), 512, goals=("error",)).empty


def test_methods_without_scores_have_an_empty_distance():
    rows = [r | {"W2": None} if r["method"] == "fairret" else r for r in made()]
    assert chosen_table(rows, 512).W2.to_dict() == {"W2": "0.100 ± 0.000", "fairret": ""}
