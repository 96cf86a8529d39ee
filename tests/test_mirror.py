"""One tree seen three times: a notebook, its module and its page have the same place and name."""
import ast
import os
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

import fairw2_nb
import pytest
import site_pages
from conftest import LIB, ROOT, code_cells, each_module, each_notebook, is_exported
from conftest import module_id, modules, notebook_id, notebooks

LINK = r"\(([^)#]+)[^)]*\)"
NEXT = re.compile(rf"\bNext\b[^[.]*\[[^]]*\]{LINK}|\[[^]]*\bnext page\b[^]]*\]{LINK}")


def place(nb):
    "Room and name of a notebook, without its number."
    return re.sub(r"(^|/)\d+_", r"\1", notebook_id(nb))


@lru_cache(None)
def exported_to(nb):
    "The module that a notebook names, or None."
    found = [re.search(r"^#\| *default_exp +(\S+)", source, re.M) for _, source in code_cells(nb)]
    return next((match[1].replace(".", "/") for match in found if match), None)


@lru_cache(None)
def listed(path):
    "The names in `__all__` of a module."
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def patched(source):
    "Line and class of each function that `@patch` or `@patch_to` adds to a class from outside."
    tree = ast.parse(source)
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in [n for n in tree.body if isinstance(n, ast.FunctionDef)]:
        for mark in map(ast.unparse, node.decorator_list):
            kind = re.fullmatch(r"patch(_to)?(?:\((\w+).*\))?", mark, re.S)
            if not kind:
                continue
            target = kind[2] if kind[1] else ast.unparse(node.args.args[0].annotation)
            if target not in own:
                yield node.lineno, target


@each_notebook
def test_notebook_has_its_place(path):
    "Two digits and a name inside a room or start/; the module and the page are named alike."
    name = path.relative_to(ROOT)
    if path.parent != ROOT / "nbs":
        assert path.parent.parent == ROOT / "nbs", f"{name} lies too deep: rooms have no rooms."
        assert path.parent.name in ["start", *site_pages.rooms()], f"{name} lies in no room."
        assert re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem), f"{name}: two digits, then a name"
    assert site_pages.page_of(path) == place(path) + ".html"
    to, exports = exported_to(path), [is_exported(source) for _, source in code_cells(path)]
    assert not to or to == place(path), f"{name} exports {to}, and its place says {place(path)}."
    assert bool(to) == any(exports), f"{name}: `default_exp` and exported cells go together."


@each_module
def test_module_has_a_notebook(path):
    "nbdev leaves modules behind whose notebook is gone."
    made = [exported_to(nb) for nb in notebooks()]
    assert made.count(module_id(path)) == 1, f"{path.relative_to(ROOT)} has not one notebook."


@each_module
def test_class_and_methods_in_one_module(path):
    "A patched method of a foreign class is there only after this module was imported."
    found = [f"{path.relative_to(ROOT)}:{line} patches {cls}, which lives elsewhere"
             for line, cls in patched(path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@each_notebook
def test_next_is_the_next_page(path):
    "Where the last cell of a page names the next one, the footer of the page agrees."
    texts = [c["source"] for c in site_pages.read_cells(path) if c["cell_type"] == "markdown"]
    pages, here = site_pages.all_pages(), site_pages.page_of(path)
    after = pages[(pages.index(here) + 1) % len(pages)]
    for link in NEXT.findall(texts[-1]):
        to = Path(os.path.normpath(path.parent / (link[0] or link[1])))
        assert to.exists(), f"{path.relative_to(ROOT)} calls {link} next, which is not there."
        named = site_pages.page_of(to)
        assert named == after, f"{here} calls {named} next, and {after} is."


def test_numbers_are_used_once():
    numbers = Counter((nb.parent.name, nb.name[:2]) for nb in notebooks() if nb.name[0].isdigit())
    twice = [f"{room}/{number}" for (room, number), count in numbers.items() if count > 1]
    assert not twice, f"two notebooks have the same number: {twice}"


def test_public_names_are_unique():
    "A link by backticks leads to the first module that has the name."
    count = Counter(name for path in modules() for name in listed(path))
    twice = {name: [module_id(path) for path in modules() if name in listed(path)]
             for name in count if count[name] > 1}
    assert not twice, f"public in several modules: {twice}"


def test_no_folder_hides_a_name():
    "After `import fairw2_nb.x` the name `fairw2_nb.x` is that module, so no name is called x."
    inside = {path.name.removesuffix(".py") for path in LIB.iterdir()}
    assert not inside & set(fairw2_nb.PLACES)


def test_rooms_are_folders():
    "Every folder of the package that holds modules is a room, and says nothing of its own."
    found = {path.parent.name for path in modules() if path.parent != LIB}
    assert found <= set(site_pages.rooms()), f"no room of settings.ini: {found}"
    for room in found:
        first = LIB / room / "__init__.py"
        assert first.exists() and not first.read_text().strip(), f"{room}/__init__.py is not empty."


@pytest.mark.parametrize("source, found", [
    ("@patch\ndef f(self: Other): pass", [(2, "Other")]),
    ("@patch(as_prop=True)\ndef f(self: Other): pass", [(2, "Other")]),
    ("@patch_to(Other)\ndef f(self): pass", [(2, "Other")]),
    ("class Own: pass\n@patch\ndef f(self: Own): pass", []),
    ("def patch_up(x): pass", []),
])
def test_the_follower_sees_patches(source, found):
    assert list(patched(source)) == found
