"""What the site says of a public symbol: heading, signature, docstring and a table of parameters from its docments."""
import ast
import inspect
import re
from dataclasses import is_dataclass
from importlib import import_module

from fastcore.docments import ShowDocRenderer, docments
from nbdev.doclinks import NbdevLookup, patch_name

from site_pages import ROOT

EMPTY = inspect.Parameter.empty


class Spelled:
    "A default value printed by name, so that no memory address reaches a page."

    def __init__(self, value):
        self.text = getattr(value, "__name__", None) or re.sub(r" at 0x\w+", "", repr(value))

    def __repr__(self):
        return self.text


def type_name(annotation):
    "An annotation as one would write it: `torch.Tensor | None` becomes `Tensor | None`."
    if annotation in (EMPTY, None):
        return ""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return re.sub(r"\b(?:\w+\.)+(\w)", r"\1", text)


def call(sym, name, width=88):
    "The call of `sym` without annotations: on one line if it fits, else a parameter a line."
    own = list(inspect.signature(sym).parameters.values())
    own = [p for p in own if p.name not in ("self", "cls")]
    bare = [p.replace(annotation=EMPTY, default=p.default if p.default is EMPTY else Spelled(p.default)) for p in own]
    text = name + str(inspect.Signature(bare))
    if len(text) <= width or not bare:
        return text
    inner = str(inspect.Signature(bare))[1:-1]
    return f"{name}(\n    " + re.sub(r", (?=[*\w/]+[,=]|[*\w]+$)", ",\n    ", inner) + ",\n)"


def code_cell(text):
    "Text as code inside a table cell."
    return f"`{text}`" if text else ""


def with_source(sym):
    "A dataclass as its module defines it, since the comments on its fields are read from a file; else `sym` itself."
    place = NbdevLookup()[sym.__name__] if is_dataclass(sym) else None
    return getattr(import_module(place[1].removesuffix(".py").replace("/", ".")), sym.__name__) if place else sym


def parameter_table(sym):
    "A row for each parameter and one for the value returned; empty when there is neither."
    rows = []
    for name, doc in docments(with_source(sym), full=True, returns=True).items():
        kind, detail = type_name(doc.anno), " ".join((doc.docment or "").split()).replace("|", r"\|")
        if name == "return":
            if kind or detail:
                rows.append(f"| **Returns** | {code_cell(kind)} | | {detail} |")
        elif name not in ("self", "cls"):
            default = "" if doc.default is EMPTY else code_cell(repr(Spelled(doc.default)))
            rows.append(f"| `{name}` | {code_cell(kind)} | {default} | {detail} |")
    return "\n".join(["| Parameter | Type | Default | Details |", "|---|---|---|---|", *rows]) if rows else ""


def own_methods(cls):
    "Name, function and whether a property, of each public method that a class defines itself."
    for name, member in vars(cls).items():
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(member):
            yield name, member, isinstance(vars(cls)[name], property)


def entry(sym, name, level, is_property=False):
    "Heading, call, docstring and parameter table of one symbol."
    signature = name if is_property else call(sym, name)
    heading = f'<h{level} id="{name.lower()}" markdown="span">{name}</h{level}>'.replace("_", "&#95;")
    parts = [heading, f"```python\n{signature}\n```", inspect.getdoc(sym) or ""]
    return "\n\n".join([*filter(None, parts), parameter_table(sym)]).rstrip()


class SymbolRenderer(ShowDocRenderer):
    "The renderer behind `show_doc` while the site is built."
    shown_apart = set()  # methods that the notebook at hand documents by a `show_doc` of their own

    def __init__(self, sym, name=None, title_level=3):
        super().__init__(sym, name=name, title_level=title_level)
        self.is_property = isinstance(sym, property)

    def _repr_markdown_(self):
        entries = [entry(self.sym, self.nm, self.title_level, self.is_property)]
        for name, method, is_property in own_methods(self.sym) if inspect.isclass(self.sym) else []:
            if f"{self.nm}.{name}" not in self.shown_apart:
                entries.append(entry(method, f"{self.nm}.{name}", self.title_level + 1, is_property))
        return '<div class="symbol" markdown="1">\n\n' + "\n\n".join(entries) + "\n\n</div>"


def first_line(node):
    "The first line of a definition's docstring."
    return (ast.get_docstring(node) or "").partition("\n")[0]


def public_names(tree):
    "Name and one-line docstring of each public function, class and method of a module."
    assigned = [n for n in tree.body if isinstance(n, ast.Assign)]
    listed = next((ast.literal_eval(n.value) for n in assigned if getattr(n.targets[0], "id", "") == "__all__"), [])
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        name = patch_name(node)  # `Class.method` for a function that nbdev patches into a class
        if name in listed or "." in name and not re.search(r"\._(?!_)", name):
            yield name, first_line(node)
        for method in node.body if name in listed and isinstance(node, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                yield f"{name}.{method.name}", first_line(method)


def names_page(modidx):
    "The page of all public names by module, as Markdown; `modidx` is nbdev's symbol index."
    parts = ["# Every public name", "> What can be imported, by module, with a link to where it is derived and tested"]
    for module, places in sorted(modidx["syms"].items()):
        tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
        link = NbdevLookup().link_line
        rows = [f"| [`{name}`]({places[f'{module}.{name}'][0]}) | {link(doc)} |" for name, doc in public_names(tree)]
        if rows:
            parts += [f"## {module.partition('.')[2]}", first_line(tree), f"```python\nfrom {module} import *\n```"]
            parts += ["\n".join(["| Name | What it does |", "|---|---|", *rows])]
    return "\n\n".join(filter(None, parts)) + "\n"
