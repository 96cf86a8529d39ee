"""What the site says of a symbol: heading, signature, docstring and a table of its parameters."""
import ast
import inspect
import re
from dataclasses import is_dataclass
from importlib import import_module
from textwrap import indent

from fastcore.docments import ShowDocRenderer, docments
from nbdev.doclinks import NbdevLookup, patch_name

EMPTY = inspect.Parameter.empty
COLUMNS = ["| Parameter | Type | Default | Details |", "|---|---|---|---|"]
Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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


def bare(parameter):
    "A parameter without annotation, its default by name."
    default = EMPTY if parameter.default is EMPTY else Spelled(parameter.default)
    return parameter.replace(annotation=EMPTY, default=default)


def call(sym, name, width=88):
    "The call of `sym` without annotations, on as few lines as it takes."
    if inspect.isclass(sym) and issubclass(sym, Exception):
        return name
    own = inspect.signature(sym).parameters.values()
    signature = str(inspect.Signature([bare(p) for p in own if p.name not in ("self", "cls")]))
    if len(name + signature) <= width or signature == "()":
        return name + signature
    parts = re.split(r", (?=[*\w/]+[,=]|[*\w]+$)", signature[1:-1])
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > width - 6:
            lines.append("")
        lines[-1] += f"{part}, "
    return f"{name}(\n    " + "\n    ".join(line.rstrip() for line in lines) + "\n)"


def code_cell(text):
    "Text as code inside a table cell."
    return f"`{text}`" if text else ""


def with_source(sym):
    "A dataclass as its module defines it, since comments on fields are read from a file."
    place = NbdevLookup()[sym.__name__] if is_dataclass(sym) else None
    if not place:
        return sym
    return getattr(import_module(place[1].removesuffix(".py").replace("/", ".")), sym.__name__)


def written_types(sym):
    "The annotations in the code; the type of a default says little of what may be given."
    return {p.name: p.annotation for p in inspect.signature(sym).parameters.values()}


def parameter_table(sym):
    "A row for each parameter and one for the value returned; empty when there is neither."
    rows = []
    if inspect.isclass(sym) and issubclass(sym, Exception):
        return ""
    kinds = written_types(sym)
    for name, doc in docments(with_source(sym), full=True, args_kwargs=True).items():
        kind = type_name(doc.anno if name == "return" else kinds.get(name, EMPTY))
        detail = " ".join((doc.docment or "").split()).replace("|", r"\|")
        if name == "return":
            if kind or detail:
                rows.append(f"| **Returns** | {code_cell(kind)} | | {detail} |")
        elif name not in ("self", "cls"):
            default = "" if doc.default is EMPTY else code_cell(repr(Spelled(doc.default)))
            rows.append(f"| `{name}` | {code_cell(kind)} | {default} | {detail} |")
    return "\n".join([*COLUMNS, *rows]) if rows else ""


def own_methods(cls):
    "Name, function and whether a property, of each public method that a class defines itself."
    for name, member in vars(cls).items():
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(member):
            yield name, member, isinstance(vars(cls)[name], property)


def entry(sym, name, level, is_property=False):
    "Heading, call, docstring and parameter table of one symbol."
    signature = name if is_property else call(sym, name)
    heading = f'<h{level} id="{name.lower()}" markdown="span">{name}</h{level}>'
    heading = heading.replace("_", "&#95;")
    own = inspect.cleandoc(sym.__doc__ or "")  # not what a method of torch says of itself
    parts = [heading, f"```python\n{signature}\n```", own]
    return "\n\n".join([*filter(None, parts), parameter_table(sym)]).rstrip()


class SymbolRenderer(ShowDocRenderer):
    "The renderer behind `show_doc` while the site is built."
    shown_apart = set()  # methods that the notebook at hand documents by a `show_doc` of their own
    folded = set()  # names in lower case whose code stands open on the page

    def __init__(self, sym, name=None, title_level=3):
        super().__init__(sym, name=name, title_level=title_level)
        self.is_property = isinstance(sym, property)

    def below_its_code(self):
        "The parameters of a symbol whose code stands open above."
        table = parameter_table(self.sym)
        title = f"Parameters of `{self.nm}`"
        return f'??? source "{title}"\n\n{indent(table, "    ")}' if table else ""

    def _repr_markdown_(self):
        if self.nm.lower() in self.folded:
            return self.below_its_code()
        entries = [entry(self.sym, self.nm, self.title_level, self.is_property)]
        for name, method, is_property in own_methods(self.sym) if inspect.isclass(self.sym) else []:
            full = f"{self.nm}.{name}"
            if full not in self.shown_apart:
                entries.append(entry(method, full, self.title_level + 1, is_property))
        return '<div class="symbol" markdown="1">\n\n' + "\n\n".join(entries) + "\n\n</div>"


def definitions(tree):
    "Name and node of each function and class at the top; `Class.method` for a patched function."
    nodes = [node for node in tree.body if isinstance(node, Definition)]
    return [(patch_name(node), node) for node in nodes]


def first_line(node):
    "The first line of a definition's docstring."
    return (ast.get_docstring(node) or "").partition("\n")[0]


def anchors(source, has_entry):
    "Names in lower case that a link may lead to; those with an entry above have theirs already."
    found = []
    for name, node in definitions(ast.parse(source)):
        private = re.search(r"(^|\.)_(?!_)", name)
        if private or not has_entry:
            found.append(name)
        if isinstance(node, ast.ClassDef) and not has_entry:
            methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef)]
            found += [f"{name}.{method}" for method in methods if not method.startswith("_")]
    return [name.lower() for name in found]


def folded_title(source, has_entry):
    "What stands on a folded cell: below an entry, no more than that it is the source."
    found = definitions(ast.parse(source))
    if has_entry or not found:
        return "Source"
    if len(found) == 1:
        return f"`{found[0][0]}` {first_line(found[0][1])}".replace('"', "&quot;").strip()
    return ", ".join(f"`{name}`" for name, _ in found)
