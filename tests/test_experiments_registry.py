"""Every experiment has a page, a row file and a line in the command's table, and rows that fit."""
import inspect
import json
import re
from collections import Counter
from importlib import import_module

import pytest
from conftest import LIB, ROOT, code_cells, module_id, modules, notebooks
from fairw2_nb.cli import COMMANDS, EXPERIMENTS, find, run_parser
from fairw2_nb.experiments.experiment import Experiment
from fairw2_nb.experiments.results import ABOUT, committed_rows, parse_lines, read_rows

COUNTS = { # rows of each file and campaign: none may get lost
    "faults": {"main": 8}, "groups": {"main": 190},
    "adult": {"main": 120, "fresh": 60, "first": 20}, "adult_sweep": {"main": 72},
    "mnist": {"main": 317},
    "celeba": {"main": 47, "trials": 33, "fresh": 2}, "attributes": {"main": 7},
    "ratios": {"main": 4}, "lambda_transfer": {"main": 159}, "references": {"main": 39},
    "memory": {"main": 4},
    "cost": {"main": 98, "first": 16, "shorter": 49}, "frontier": {"main": 1505},
    "demo": {"main": 4},
    "steering": {"main": 306, "shared": 107}, "debiased": {"main": 66}, "exchange": {"main": 9},
    "ages": {"main": 30},
}


def instances():
    "All experiments, {name in the package: object}."
    found = {}
    for path in modules():
        if path.parent.name == "experiments":
            module = import_module(f"fairw2_nb.{module_id(path).replace('/', '.')}")
            for name, value in vars(module).items():
                if isinstance(value, Experiment) and name in module.__all__:
                    found[f"{module_id(path).replace('/', '.')}:{name}"] = value
    return found


INSTANCES = instances()
FILES = sorted(committed_rows().glob("*.jsonl"))
each_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


def test_every_instance_has_a_line():
    lines = {place: (name, about) for name, (place, about) in EXPERIMENTS.items()}
    assert lines == {place: (exp.name, exp.about) for place, exp in INSTANCES.items()}


def test_every_row_file_has_an_experiment_that_extends_it():
    assert {path.stem for path in FILES} == {*EXPERIMENTS}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name):
    assert callable(find(COMMANDS, name))


@each_experiment
def test_it_is_shown_on_its_page(name):
    module, _, instance = EXPERIMENTS[name][0].partition(":")
    pages = {p.stem.split("_", 1)[1]: p for p in notebooks() if p.parent.name == "experiments"}
    page = pages[module.split(".")[1]]
    shown = [source for _, source in code_cells(page)
             if re.search(rf"rows_of\({instance}\b", source)]
    assert shown, f"{page.relative_to(ROOT)} shows no rows of {instance}"


@each_experiment
def test_its_rows_carry_all_that_they_are_recognised_by(name):
    exp = find(EXPERIMENTS, name)
    settings = {*inspect.signature(exp.run).parameters} - {*exp.places}
    for row in read_rows(committed_rows() / f"{name}.jsonl"):
        assert settings | {*ABOUT} <= row.keys() and not {*exp.places} & row.keys()
        assert re.fullmatch(r"[0-9a-f]{12}\+?", row["commit"])
        assert row["data"] or row["campaign"] == "trials"


@each_experiment
def test_no_row_is_lost(name):
    rows = read_rows(committed_rows() / f"{name}.jsonl")
    found = Counter(row["campaign"] for row in rows)
    assert all(found[campaign] >= n for campaign, n in COUNTS[name].items()), found


def test_no_row_stands_twice():
    "But for two early settings, which were tried again."
    twice = 0
    for name in EXPERIMENTS:
        exp = find(EXPERIMENTS, name)
        keys = Counter(exp.key(row) for row in read_rows(committed_rows() / f"{name}.jsonl"))
        twice += sum(n - 1 for n in keys.values())
    assert twice == 2


@each_experiment
def test_its_flags_have_help(name):
    text = run_parser(find(EXPERIMENTS, name)).format_help()
    flags = run_parser(find(EXPERIMENTS, name))._actions
    bare = [a.dest for a in flags if not a.help]
    assert not bare, f"{bare} of {name} have no help"
    assert "--out" in text and "--report" in text and "--campaign" in text


@each_experiment
def test_runs_set_no_threads_and_hide_no_warnings(name):
    "That is done once, around every run."
    source = inspect.getsource(find(EXPERIMENTS, name).run)
    assert "set_num_threads" not in source and "simplefilter" not in source


def test_rows_are_plain_json_with_checksums():
    "If one has none: python tools/move_rows.py fairw2_nb/experiments/rows"
    for path in FILES:
        assert not parse_lines(path)[1]
        for line in path.read_text(encoding="utf-8").splitlines():
            assert isinstance(json.loads(line), dict)
    assert LIB in committed_rows().parents
