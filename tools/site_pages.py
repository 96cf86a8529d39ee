"""Which notebook becomes which page, in which order, and the hashes that tie a page to its sources.

Standard library only: the tests read this module without building anything.
"""
import hashlib
import json
import re
from configparser import ConfigParser
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NBS, DOCS = ROOT / "nbs", ROOT / "docs"
API_PAGE = "api.html"  # written from the modules, not from a notebook
FIRST, LAST = ["index"], ["paper", "cli"]  # of the root: before and after the rooms
# settings.ini holds more than this, but a page depends on nothing else in it
SETTINGS_USED = ["lib_name", "title", "description", "copyright", "doc_host", "doc_baseurl"]
SETTINGS_USED += ["git_url", "branch", "rooms"]


@lru_cache(None)
def settings():
    "The values of settings.ini that the site uses."
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    return {key: parser["DEFAULT"][key] for key in SETTINGS_USED}


def rooms():
    "The folders of the library in reading order, as settings.ini gives them."
    return settings()["rooms"].split()


def read_cells(nb):
    "The cells of a notebook with each source as one string."
    cells = json.loads(nb.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


@lru_cache(None)
def is_internal(nb):
    "Whether the first cell has a line `- kind: internals`: its page stands last on the site."
    texts = [cell["source"] for cell in read_cells(nb) if cell["cell_type"] == "markdown"]
    return bool(texts and re.search(r"^- *kind: *internals *$", texts[0], re.M))


def section(nb):
    "The section of the site in which a notebook stands; none for the first page."
    folder, stem = nb.relative_to(NBS).parent.as_posix(), nb.stem
    if is_internal(nb):
        return "Internals"
    if folder == ".":
        return None if stem in FIRST else "Reference"
    if folder not in ["start", *rooms()]:
        raise ValueError(f"{nb.relative_to(ROOT)} lies in no room: settings.ini names the rooms.")
    return folder.capitalize()


def sections():
    "The sections of the site in order."
    return ["Start", *(room.capitalize() for room in rooms()), "Reference", "Internals"]


def reading_order(nb):
    "Sort key of a notebook: its section, its room, its number."
    folder, stem = nb.relative_to(NBS).parent.as_posix(), nb.stem
    place = sections().index(section(nb)) if section(nb) else -1
    room = rooms().index(folder) if folder in rooms() else -1
    return place, room, LAST.index(stem) if stem in LAST else len(LAST), stem


@lru_cache(None)
def notebooks():
    "Every notebook of the site, in reading order."
    found = [p for p in NBS.rglob("*.ipynb") if p.relative_to(NBS).as_posix()[0] not in "._"]
    found = [p for p in found if ".ipynb_checkpoints" not in p.parts]
    return sorted(found, key=reading_order)


def page_of(nb):
    "The page of a notebook below docs/: `nbs/data/04_adult.ipynb` gives `data/adult.html`."
    name = re.sub(r"^\d+[a-zA-Z0-9]*_", "", nb.stem.lower()) + ".html"  # as in nbdev's index
    return (nb.relative_to(NBS).parent / name).as_posix()


def all_pages():
    "Every page in reading order: that of the public names stands last of its section."
    pages = [page_of(nb) for nb in notebooks() if section(nb) != "Internals"]
    return [*pages, API_PAGE, *(page_of(nb) for nb in notebooks() if section(nb) == "Internals")]


def notebook_sha256(nb):
    "Hash of what a reader sees of a notebook: sources and outputs, not their ids or counts."
    seen = [(c["cell_type"], c["source"], c.get("outputs", [])) for c in read_cells(nb)]
    for _, _, outputs in seen:
        for output in outputs:
            output.pop("execution_count", None)
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def all_notebooks_sha256():
    "Hash of all notebooks together: what the page of public names depends on."
    return hashlib.sha256(" ".join(map(notebook_sha256, notebooks())).encode()).hexdigest()


def builder_sha256():
    "Hash of what turns notebooks into pages: mkdocs.yml, builder, styles and settings used."
    tools = ROOT / "tools"
    files = [ROOT / "mkdocs.yml", tools / "build_docs.py", ROOT / "fairw2_nb" / "__init__.py"]
    files += [*tools.glob("site_*.py"), *tools.glob("site/**/*.*")]
    digest = hashlib.sha256(json.dumps(settings(), sort_keys=True).encode())
    for path in sorted(files):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
