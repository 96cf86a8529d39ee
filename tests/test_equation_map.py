"""The equation map of 00_notation claims nothing that is not there."""
import importlib
import json
import re

import pytest
from conftest import ROOT

LABELS = """def:DIclassifier def:EqOddsGeneralEq eq:w2regstar eq:minimizedEnergy gateaux eq:generalcase eq:specificcase eq:specificcase2
eq:PbDiscretization eq:w2reg eq:gradS0S1 eq:finalW2gradApprox def:DEclassifier def:groupMSE def:continuous_groupMSE eq:def_Htilde
eq:minimizedEnergyErr eq:finalW2gradApprox_err dual gateaux2 eq:finalW1gradApprox eq:LogitReg""".split()
OTHERS = ["Proposition 1", "Proposition 2", "Lemma 1", "Algorithm 1"]
NOT_YET, HERE = "—", "on the page"


def cells(name):
    "Cells of a notebook."
    return json.loads((ROOT / "nbs" / name).read_text())["cells"]


def source(cell):
    "Source of a cell as one string."
    return "".join(cell["source"])


def table():
    "The rows of the equation map."
    text = next(source(c) for c in cells("00_notation.ipynb") if source(c).startswith("## Equation map"))
    rows = [[part.strip() for part in line.strip("| \n").split(" | ")] for line in text.splitlines() if line.startswith("|")][2:]
    assert all(len(r) == 5 for r in rows), "Every row of the equation map has five columns."
    return rows


def slug(heading):
    "Anchor of a heading on the site."
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-")


def section(notebook, anchor):
    "The cells between a heading and the next one of the same or a higher level."
    found, level = [], 0
    for cell in cells(notebook):
        headings = re.findall(r"^(#+) (.+)", source(cell), re.M) if cell["cell_type"] == "markdown" else []
        if headings and level and len(headings[0][0]) <= level:
            break
        level = level or next((len(marks) for marks, text in headings if slug(text) == anchor), 0)
        if level:
            found.append(cell)
    return found


def test_every_equation_has_a_row():
    assert sorted(r[0].strip("`") for r in table()) == sorted(LABELS + OTHERS)


@pytest.mark.parametrize("row", table(), ids=lambda r: r[0])
def test_row_claims_what_is_there(row):
    label, _, page, function, check = row
    if NOT_YET in (page, function, check):
        assert page == function == check == NOT_YET, f"{label}: a row is there or it is not."
        return
    notebook, anchor = re.fullmatch(r"\[.+\]\((.+\.ipynb)#(.+)\)", page).groups()
    part = section(notebook, anchor)
    assert part, f"{label}: {notebook} has no heading #{anchor}."
    code = "\n".join(source(c) for c in part if c["cell_type"] == "code")
    if function == HERE:
        assert code, f"{label}: {notebook}#{anchor} computes nothing."
    else:
        module, name = function.strip("`").rsplit(".", 1)
        assert callable(getattr(importlib.import_module(f"fairw2_nb.{module}"), name, None)), f"{label}: there is no {function}."
    if check == HERE:
        assert re.search(r"\bassert|assert_|test_\w+\(", code), f"{label}: {notebook}#{anchor} asserts nothing."
    else:
        file, test = check.strip("`").split("::")
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M), f"{label}: {file} has no {test}."


def test_a_false_claim_fails():
    "The follower notices a page, a function and a check that do not exist."
    good = next(r for r in table() if r[0] == "`def:DIclassifier`")
    for column, lie in [(2, "[Metrics](01_metrics.ipynb#no-such-heading)"), (3, "`metrics.no_such_function`"), (4, "`tests/test_metrics.py::test_nothing`")]:
        row = [*good[:column], lie, *good[column + 1:]]
        with pytest.raises(AssertionError):
            test_row_claims_what_is_there(row)
