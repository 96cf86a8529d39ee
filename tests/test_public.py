"""What is public is a promise: documented, explained parameter by parameter, shown at work."""
import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module

import fairw2_nb
import pytest
import site_names
import site_symbols
import torch
from conftest import LIB, ROOT, code_cells, is_exported, module_id, modules, notebooks
from fastcore.docments import docments
from test_mirror import exported_to, listed

MOST = 120
NAMES = [(path, name) for path in modules() for name in listed(path)]
each_name = pytest.mark.parametrize(
    "path, name", NAMES, ids=[f"{module_id(path)}.{name}" for path, name in NAMES])


def symbol(path, name):
    "What a module calls `name`."
    return getattr(import_module(".".join([LIB.name, *module_id(path).split("/")])), name)


def names_used(source):
    "The names that a cell uses outside of imports."
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def is_shown(source):
    "Whether a cell is a lesson that a reader sees."
    return not is_exported(source) and not re.search(r"^#\| *(hide|echo: *false)\b", source, re.M)


def unexplained(sym):
    "The parameters of a function or class without a comment; a foreign `__init__` is not ours."
    if inspect.isclass(sym) and not getattr(sym.__init__, "__module__", "").startswith(LIB.name):
        return []
    found = docments(sym, full=True, returns=False, args_kwargs=True).items()
    return [name for name, doc in found if name not in ("self", "cls") and not doc.docment]


@each_name
def test_has_a_docstring(path, name):
    sym = symbol(path, name)
    if inspect.isclass(sym) or inspect.isfunction(sym):
        assert (sym.__doc__ or "").strip(), f"{name} of {path.relative_to(ROOT)} has no docstring."


@each_name
def test_explains_its_parameters(path, name):
    sym = symbol(path, name)
    if inspect.isclass(sym) or inspect.isfunction(sym):
        missing = unexplained(sym)
        assert not missing, f"{name} of {path.relative_to(ROOT)} does not explain {missing}."


@each_name
def test_has_an_example(path, name):
    "A cell of its page, after which a reader has seen it at work."
    page = next(nb for nb in notebooks() if exported_to(nb) == module_id(path))
    lessons = [source for _, source in code_cells(page) if is_shown(source)]
    shown = any(name in names_used(source) for source in lessons)
    assert shown, f"{page.relative_to(ROOT)} has no example of {name}."


def test_few_enough():
    count = {}
    for path, _ in NAMES:
        count[path.parent.name] = count.get(path.parent.name, 0) + 1
    assert len(NAMES) <= MOST, f"{len(NAMES)} public names: {count}"


@pytest.mark.parametrize("name, place", fairw2_nb.PLACES.items(), ids=fairw2_nb.PLACES)
def test_everyday_names(name, place):
    "A name at the top is the one of its module, where it is public."
    assert getattr(fairw2_nb, name) is symbol(LIB / (place.replace(".", "/") + ".py"), name)
    assert name in listed(LIB / (place.replace(".", "/") + ".py"))
    assert name in dir(fairw2_nb)


def test_everyday_import():
    "In a fresh interpreter, so that nothing was imported before."
    line = "from fairw2_nb import fit, FairMLPClassifier, FairLogisticRegression, load_table"
    subprocess.run([sys.executable, "-c", line], check=True, cwd=ROOT)


@pytest.mark.parametrize("name", fairw2_nb.PLACES)
def test_everyday_names_have_an_example(name):
    "The page of names shows each at work."
    page = next(nb for nb in notebooks()
                if exported_to(nb) == fairw2_nb.PLACES[name].replace(".", "/"))
    assert name in site_names.example(page, name)


def test_types_are_those_of_the_code():
    "A default of None or of a word does not say what may be given."
    def some(a, b=None, c: int = 3, d="auto"): pass
    lines = site_symbols.parameter_table(some).splitlines()[2:]
    assert [line.split("|")[2].strip() for line in lines] == ["", "", "`int`", ""]


def test_page_of_names():
    "Each line has two cells and says something, bars inside are escaped, and no hook is listed."
    lines = [line for line in site_names.names_page().splitlines() if line.startswith("| [`")]
    cells = [re.split(r"(?<!\\)\|", line) for line in lines]
    assert {len(found) for found in cells} == {4}
    assert not [found[1] for found in cells if not found[2].strip()]
    assert not [line for line in lines if "extra_repr" in line]


def test_a_method_says_nothing_of_its_parent():
    "The text of `nn.Module.forward` does not stand on our pages."
    class Own(torch.nn.Identity):
        def forward(self, x): return x
    assert "computation" not in site_symbols.entry(Own.forward, "Own.forward", 4)
