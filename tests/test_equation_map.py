"""The equation map of the page on the paper claims nothing that is not there."""
import importlib
import os
import re
import unicodedata
from pathlib import PurePosixPath

import mutants
import pytest
import site_pages
from conftest import ROOT

MAP = PurePosixPath("paper.ipynb")
LABELS = """def:DIclassifier def:EqOddsGeneralEq eq:w2regstar eq:minimizedEnergy gateaux
eq:generalcase
eq:specificcase eq:specificcase2 eq:PbDiscretization eq:w2reg eq:gradS0S1 eq:finalW2gradApprox
def:DEclassifier def:groupMSE def:continuous_groupMSE eq:def_Htilde eq:minimizedEnergyErr
eq:finalW2gradApprox_err dual gateaux2 eq:finalW1gradApprox eq:LogitReg""".split()
OTHERS = ["Proposition 1", "Proposition 2", "Lemma 1", "Algorithm 1", r"$R(\theta)$",
          "Appendix B, first", r"$\lambda = \alpha\, g_R / g_W$", "the controller",
          '"α converges to zero otherwise"', "Table 1", "Table 2"]
OTHERS += [f"Figure {k}" for k in range(1, 7)]
NOT_YET, HERE = "—", "on the page"


def cells(name):
    "Cells of a notebook below nbs/."
    return site_pages.read_cells(ROOT / "nbs" / name)


def table():
    "The rows of the equation map."
    sources = [cell["source"] for cell in cells(MAP)]
    text = next(source for source in sources if source.startswith("## Equation map"))
    lines = [line.strip("| \n") for line in text.splitlines() if line.startswith("|")]
    rows = [[part.strip() for part in line.split(" | ")] for line in lines][2:]
    assert all(len(r) == 5 for r in rows), "Every row of the equation map has five columns."
    return rows


def slug(heading):
    "Anchor of a heading on the site, which keeps ASCII only."
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())


def section(notebook, anchor):
    "The cells between a heading and the next one of the same or a higher level."
    found, level = [], 0
    for cell in cells(notebook):
        text = cell["source"] if cell["cell_type"] == "markdown" else ""
        headings = re.findall(r"^(#+) (.+)", text, re.M)
        if headings and level and len(headings[0][0]) <= level:
            break
        level = level or next((len(m) for m, text in headings if slug(text) == anchor), 0)
        if level:
            found.append(cell)
    return found


def function_named(place):
    "The function or class that `room.module.name` stands for, or None."
    module, _, name = place.rpartition(".")
    try:
        return getattr(importlib.import_module(f"fairw2_nb.{module}"), name, None)
    except ModuleNotFoundError:
        return None


def test_every_equation_has_a_row():
    assert sorted(r[0].strip("`") for r in table()) == sorted(LABELS + OTHERS)


@pytest.mark.parametrize("row", table(), ids=lambda r: r[0])
def test_row_claims_what_is_there(row):
    label, _, page, function, check = row
    if NOT_YET in (page, function, check):
        assert page == function == check == NOT_YET, f"{label}: a row is there or it is not."
        return
    link, anchor = re.fullmatch(r"\[.+\]\((.+\.ipynb)#(.+)\)", page).groups()
    notebook = os.path.normpath(MAP.parent / link)
    part = section(notebook, anchor)
    assert part, f"{label}: {notebook} has no heading #{anchor}."
    code = "\n".join(cell["source"] for cell in part if cell["cell_type"] == "code")
    if function == HERE:
        assert code, f"{label}: {notebook}#{anchor} computes nothing."
    else:
        assert callable(function_named(function.strip("`"))), f"{label}: there is no {function}."
    if check == HERE:
        asserts = re.search(r"\bassert|assert_|test_\w+\(", code)
        assert asserts, f"{label}: {notebook}#{anchor} asserts nothing."
    else:
        file, test = check.strip("`").split("::")
        assert (ROOT / file).exists(), f"{label}: there is no {file}."
        there = re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M)
        assert there, f"{label}: {file} has no {test}."


NAMED = {r"$R(\theta)$": "R(θ)", r"$\lambda = \alpha\, g_R / g_W$": "λ = α g_R / g_W",
         "the controller": "controller"}


@pytest.mark.parametrize("row", [r for r in table() if r[3] not in (NOT_YET, HERE)],
                         ids=lambda r: r[0])
def test_what_is_exported_has_its_errors_planted(row):
    "A check is worth what it notices: each such row has an error in `mutants.py`."
    label = NAMED.get(row[0], row[0].strip("`"))
    planted = [m.what for m in mutants.mutants() if m.what.startswith(f"{label}:")]
    assert planted, f"{label}: tests/mutants.py plants no error in {row[3]}."


@pytest.mark.parametrize("column, lie", [
    (2, "[Metrics](metrics/01_disparities.ipynb#no-such-heading)"),
    (3, "`metrics.disparities.no_such_function`"),
    (3, "`metrics.no_such_module.disparate_impact`"),
    (4, "`tests/test_equation_map.py::test_nothing`"),
    (4, "`tests/test_no_such_file.py::test_nothing`"),
])
def test_a_false_claim_fails(column, lie):
    "The follower notices a page, a function and a check that do not exist."
    good = next(r for r in table() if r[0] == "`def:DIclassifier`")
    row = [*good[:column], lie, *good[column + 1:]]
    with pytest.raises(AssertionError):
        test_row_claims_what_is_there(row)
