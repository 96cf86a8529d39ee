"""Which notebook becomes which page, in which order, and the hashes that tie a page to what it was built from.

Standard library only: the tests read this module without building anything.
"""
import hashlib
import json
import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NBS, DOCS = ROOT / "nbs", ROOT / "docs"
# folder under nbs/ -> section of the site, in the order of the navigation
SECTIONS = {".": "Method", "experiments": "Experiments", "extensions": "Extensions", "api": "API use"}
# names without a leading number that do not come in alphabetical order; others follow them
PAPER_ORDER = ["index", "adult", "mnist", "celeba", "celeba_changes", "portability", "contest", "cost", "variations", "peers", "areas", "frontier", "choose"]
API_PAGE = "api.html"  # written from the modules, not from a notebook
# settings.ini holds more than this, but a page depends on nothing else in it
SETTINGS_USED = ["lib_name", "title", "description", "copyright", "doc_host", "doc_baseurl", "git_url", "branch"]


def settings():
    "The values of settings.ini that the site uses."
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    return {key: parser["DEFAULT"][key] for key in SETTINGS_USED}


def reading_order(nb):
    "Sort key of a notebook: its section, then its number, then its place in the paper."
    folder, stem = nb.relative_to(NBS).parent.as_posix(), nb.stem
    if folder not in SECTIONS:
        raise ValueError(f"{nb.relative_to(ROOT)} lies in a folder without a section: add it to SECTIONS in tools/site_pages.py.")
    place = PAPER_ORDER.index(stem) if stem in PAPER_ORDER else len(PAPER_ORDER)
    return list(SECTIONS).index(folder), stem != "index", not stem[0].isdigit(), place, stem


def notebooks():
    "Every notebook of the site, in reading order."
    found = [p for p in NBS.rglob("*.ipynb") if not any(part[0] in "._" for part in p.relative_to(NBS).parts)]
    return sorted(found, key=reading_order)


def page_of(nb):
    "The page of a notebook, relative to docs/: `nbs/02_transport.ipynb` gives `transport.html`, as in nbdev's symbol index."
    name = re.sub(r"^\d+[a-zA-Z0-9]*_", "", nb.stem.lower()) + ".html"
    return (nb.relative_to(NBS).parent / name).as_posix()


def read_cells(nb):
    "The cells of a notebook with each source as one string."
    cells = json.loads(nb.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def notebook_sha256(nb):
    "Hash of what a reader sees of a notebook: the sources and outputs of its cells, not their ids or counts."
    seen = [(c["cell_type"], c["source"], c.get("outputs", [])) for c in read_cells(nb)]
    for _, _, outputs in seen:
        for output in outputs:
            output.pop("execution_count", None)
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def all_notebooks_sha256():
    "Hash of all notebooks together: what the page of public names depends on."
    return hashlib.sha256(" ".join(map(notebook_sha256, notebooks())).encode()).hexdigest()


def builder_sha256():
    "Hash of what turns notebooks into pages: mkdocs.yml, the builder, its styles and the settings it uses."
    tools = ROOT / "tools"
    files = [ROOT / "mkdocs.yml", tools / "build_docs.py", *tools.glob("site_*.py"), *tools.glob("site/**/*.*")]
    digest = hashlib.sha256(json.dumps(settings(), sort_keys=True).encode())
    for path in sorted(files):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
