"""A room imports from itself and from rooms before it, lesson cells too; no import leads back."""
import ast

import fairw2_nb
import pytest
import site_pages
from conftest import LIB, ROOT, code_cells, each_module, each_notebook, modules

ROOMS = site_pages.rooms()
PACKAGE = LIB.name


def from_where(node, package):
    "The modules that an import statement names, in full; `package` is where it stands."
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = node.module or ""
    if node.level:
        above = package.split(".")
        module = ".".join([*above[:len(above) - node.level + 1], *filter(None, [module])])
    if module != PACKAGE:
        return [module]
    places = fairw2_nb.PLACES
    return [f"{PACKAGE}.{places.get(alias.name, alias.name)}" for alias in node.names]


def imports(source, package=PACKAGE):
    "Line and module, without the name of the package, of each import of the library in `source`."
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for module in from_where(node, package):
                if module.startswith(PACKAGE + "."):
                    yield node.lineno, module.removeprefix(PACKAGE + ".")


def upward(source, room, package=PACKAGE):
    "Line and module of each import of a later room; `cli` stands above all rooms."
    for line, module in imports(source, package):
        there = module.split(".")[0]
        if there not in ROOMS or ROOMS.index(there) > ROOMS.index(room):
            yield line, module


def module_imports(path):
    "Line and module of each import of the library in a module."
    package = ".".join(path.relative_to(ROOT).parts[:-1])
    return list(imports(path.read_text(encoding="utf-8"), package))


def room_of(path, top):
    "The room of a file below `top`, or None at its root."
    parts = path.relative_to(top).parts
    return parts[0] if len(parts) > 1 and parts[0] in ROOMS else None


@each_module
def test_modules_import_downwards(path):
    room, source = room_of(path, LIB), path.read_text(encoding="utf-8")
    wrong = list(upward(source, room, f"{PACKAGE}.{room}")) if room else []
    name = path.relative_to(ROOT)
    assert not wrong, "\n".join(f"{name}:{line} imports {module}" for line, module in wrong)


@each_notebook
def test_lessons_import_downwards(path):
    room = room_of(path, ROOT / "nbs")
    wrong = [
        f"{path.relative_to(ROOT)} cell {i} line {line} imports {module}"
        for i, source in code_cells(path) if room
        for line, module in upward(source, room)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_cycles():
    "Following imports never leads back to where one started."
    graph = {path.relative_to(LIB).with_suffix("").as_posix(): path for path in modules()}
    graph = {name.replace("/", "."): module_imports(path) for name, path in graph.items()}
    done = set()

    def follow(name, way):
        assert name not in way, "a cycle of imports: " + " -> ".join([*way, name])
        if name not in done:
            for _, module in graph.get(name, []):
                follow(module, [*way, name])
            done.add(name)

    for name in graph:
        follow(name, [])


@pytest.mark.parametrize("source, found", [
    ("from fairw2_nb.training.loop import fit", [(1, "training.loop")]),
    ("import fairw2_nb.training.loop", [(1, "training.loop")]),
    ("from ..training.loop import fit", [(1, "training.loop")]),
    ("x = 1\nfrom fairw2_nb import fit", [(2, "training.loop")]),
    ("def f():\n    from fairw2_nb.cli import main", [(2, "cli")]),
    ("from fairw2_nb.data.adult import load_adult", []),
    ("from .adult import load_adult", []),
    ("from torch import nn", []),
])
def test_the_follower_sees_upward_imports(source, found):
    assert list(upward(source, "data", f"{PACKAGE}.data")) == found
