"""The table of errors is in step with the code, and a few of them are tried.

All are tried by `make mutants`."""
import re

import mutants
import pytest
from conftest import ROOT
from mutants import Mutant, run


def test_every_error_can_be_planted():
    "Its text stands once in the module and in the notebook, and its guard is there."
    lost = []
    for mutant in mutants.mutants():
        file, name = re.match(r"(tests/\w+\.py)::(\w+)", mutant.guard).groups()
        if not re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M):
            lost.append(f"{mutant.what}: there is no {mutant.guard}.")
        try: mutants.mutated(mutant)
        except LookupError as error: lost.append(str(error))
    assert not lost, "Change tests/mutants.py together with the code:\n" + "\n".join(lost)


def test_the_table_is_long_enough_and_names_are_different():
    names = [mutant.what for mutant in mutants.mutants()]
    assert len(set(names)) == len(names) >= 60 and mutants.IN_MAKE_TEST <= set(names)


def test_a_few_errors_are_noticed():
    "And what is no error, or no more than a crash, is told apart."
    chosen = [m for m in mutants.mutants() if m.what in mutants.IN_MAKE_TEST]
    rule = next(m for m in chosen if m.what.startswith("controller"))
    harmless, broken = (rule._replace(new=new) for new in (f"{rule.old} or 1.", "1 / 0: pass"))
    jobs = [(m.guard, m) for m in (*chosen, harmless, broken)]
    found = {mutant: how for _, mutant, how, _ in run(jobs, 1, ("torch", "pytest", "hypothesis"))}
    assert {m.what: found[m] for m in chosen} == {m.what: "failed" for m in chosen}
    assert found[harmless] == "passed" and "ZeroDivisionError" in found[broken]


def test_a_text_that_is_not_there_is_reported():
    lost = Mutant("nothing", "training.lambdas", "no such text", "", "tests/test_guards.py::test_x")
    with pytest.raises(LookupError, match="'no such text' is in 0 cells of 06_lambdas.ipynb"):
        mutants.mutated(lost)
