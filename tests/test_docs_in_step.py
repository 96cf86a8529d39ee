"""Each page under docs/, and README.md, was built from the notebooks as they stand. Reads only."""
import json
import re

import pytest
import site_cells
import site_pages
from conftest import ROOT, notebook_id

HTML = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.html")]
PAGES = sorted(page for page in HTML if page != "404.html")
SHORT = 150  # lines of README.md


def stored_hash(page, name):
    "The hash that the builder left in the head of a page."
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.search(rf'<meta name="{name}" content="(\w+)">', text)
    return found and found[1]


@pytest.mark.parametrize("nb", site_pages.notebooks(), ids=notebook_id)
def test_page_matches_notebook(nb):
    "The page carries the hash of its notebook's sources and outputs."
    page, name = site_pages.page_of(nb), nb.relative_to(ROOT)
    assert page in PAGES, f"{name} has no page docs/{page}: run `make docs`."
    same = stored_hash(page, "notebook-sha256") == site_pages.notebook_sha256(nb)
    assert same, f"docs/{page} was built from another version of {name}: run `make docs`."


@pytest.mark.parametrize("page", PAGES)
def test_page_matches_builder(page):
    "The page has a notebook and was made by the builder, style and settings at hand."
    known = {site_pages.page_of(nb) for nb in site_pages.notebooks()} | {site_pages.API_PAGE}
    assert page in known, f"docs/{page} has no notebook any more: run `make docs`."
    same = stored_hash(page, "builder-sha256") == site_pages.builder_sha256()
    assert same, f"docs/{page} was built with other tools, styles or settings: run `make docs`."


def test_names_page_matches_notebooks():
    "The page of public names depends on all notebooks together."
    same = stored_hash(site_pages.API_PAGE, "notebook-sha256") == site_pages.all_notebooks_sha256()
    assert same, f"docs/{site_pages.API_PAGE} was built from other notebooks: run `make docs`."


def test_readme_matches_index():
    "README.md is what nbs/index.ipynb gives, and its figures are there."
    text, figures = site_cells.readme()
    same = (ROOT / "README.md").read_text(encoding="utf-8") == text
    assert same, "README.md is not in step with nbs/index.ipynb: run `make docs`."
    for path, content in figures.items():
        same = (ROOT / "docs" / path).read_bytes() == content
        assert same, f"docs/{path} is not the figure of nbs/index.ipynb: run `make docs`."


def test_readme_is_short():
    "One screen after the other is for the site."
    lines = site_cells.readme()[0].splitlines()
    assert len(lines) <= SHORT, f"README.md would have {len(lines)} lines."
    assert re.search(r"^!\[.+\]\(docs/", "\n".join(lines), re.M), "README.md shows no picture."


@pytest.mark.parametrize("change", [
    ("source", "x = 1"),
    ("outputs", [{"output_type": "stream", "text": "2"}]),
], ids=["source", "output"])
def test_hash_sees_changes(change, tmp_path):
    "Another source or output gives another hash; another id or count does not."
    cell = {"cell_type": "code", "source": "x = 2", "outputs": [], "id": "a", "execution_count": 1}
    paths = [tmp_path / name for name in ("a.ipynb", "b.ipynb", "c.ipynb")]
    cells = [cell, {**cell, "id": "b", "execution_count": 2}, {**cell, change[0]: change[1]}]
    for path, content in zip(paths, cells):
        path.write_text(json.dumps({"cells": [content]}))
    same, renumbered, changed = map(site_pages.notebook_sha256, paths)
    assert same == renumbered != changed
