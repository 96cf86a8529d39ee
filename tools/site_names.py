"""The page of public names: everyday ones with an example each, then by room, internals last."""
import ast
import re
from importlib import import_module

import fairw2_nb
from nbdev.doclinks import NbdevLookup

from site_pages import ROOT, is_internal, notebooks, page_of, read_cells, rooms
from site_symbols import call, definitions, first_line

LONGEST = 8  # lines of an example
UNSEEN = re.compile(r"^#\| *(exporti?|hide|echo: *false|default_exp)\b", re.M)
INNER = {"crowd", "extra_repr", "how"}  # methods that torch or the class itself calls
TITLE, SUBTITLE = "Names", "What can be imported: the everyday names first, then room by room"


def module_name(nb):
    "The module that a notebook exports to, without the name of the package, or None."
    found = [re.search(r"^#\| *default_exp +(\S+)", c["source"], re.M) for c in read_cells(nb)]
    return next((m[1] for m in found if m), None)


def module_tree(module):
    "The syntax tree of a module."
    path = ROOT / "fairw2_nb" / (module.replace(".", "/") + ".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def listed(tree):
    "The names in `__all__`."
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def names_in(node):
    "The names that a piece of code uses, and attributes."
    return {getattr(n, "id", None) or getattr(n, "attr", None) for n in ast.walk(node)
            if isinstance(n, (ast.Name, ast.Attribute))}


def set_by(node):
    "The names that a statement gives a value."
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def is_lesson(node):
    "Whether a statement shows rather than tests: a value that is kept or displayed."
    called = getattr(getattr(node, "value", None), "func", None)
    tests = getattr(called, "id", "").startswith(("test_", "assert"))
    return isinstance(node, (ast.Assign, ast.Expr)) and not tests


def shortened(source, name):
    "The statement of a cell that uses `name`, with those before it that it needs; '' if too long."
    body, lines = ast.parse(source).body, source.splitlines()
    using = [n for n in body if name in names_in(n) and is_lesson(n)]
    if not using:
        return ""
    kept, needed = [using[0]], names_in(using[0])
    for node in reversed(body[:body.index(using[0])]):
        if isinstance(node, ast.Assign) and set_by(node) & needed:
            kept, needed = [node, *kept], needed | names_in(node)
    for part in (kept, kept[-1:]):
        text = "\n".join("\n".join(lines[n.lineno - 1:n.end_lineno]) for n in part)
        if text.count("\n") < LONGEST:
            return text
    return ""


def example(nb, name):
    "The first lesson on a page that uses `name` after its definition, shortened."
    cells = [c["source"] for c in read_cells(nb) if c["cell_type"] == "code"]
    defined = [i for i, source in enumerate(cells) if name in dict(definitions_of(source))]
    lessons = [c for c in cells[defined[0] if defined else 0:] if not UNSEEN.search(c)]
    for source in lessons:
        source = re.sub(r"^(#\||%|!).*\n?", "", source, flags=re.M)
        if re.search(rf"\b{name}\(", source) and (text := shortened(source, name)):
            return text
    return ""


def definitions_of(source):
    "The definitions of an exported cell."
    return definitions(ast.parse(source)) if re.search(r"^#\| *export\b", source, re.M) else []


def everyday(pages):
    "The entries of the names at the top of the package."
    for name, module in fairw2_nb.PLACES.items():
        sym, nb = getattr(fairw2_nb, name), pages[module]
        yield f"### [`{name}`]({page_of(nb)}#{name.lower()}) {{ #{name.lower()} }}"
        yield NbdevLookup().link_line((sym.__doc__ or "").strip().partition("\n")[0])
        yield f"```python\n{call(sym, name)}\n```"
        if shown := example(nb, name):
            yield f"For example:\n\n```python\n{shown}\n```"


def constant_line(module, name):
    "One line on a name that is neither function nor class: what it says of itself, or its comment."
    value = getattr(import_module(f"fairw2_nb.{module}"), name)
    source = (ROOT / "fairw2_nb" / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    comment = re.search(rf"^{name}\b.*?# (.+)$", source, re.M)
    return getattr(value, "about", None) or (comment[1] if comment else "")


def is_for_users(method, line):
    "Whether a method is to be listed: it says what it does, and a user would call it."
    return bool(line) and not re.search(r"\._", method) and method.rpartition(".")[2] not in INNER


def public_names(module):
    "Name, anchor and one line of each public name of a module, with the methods of its classes."
    tree, found = module_tree(module), {}
    for name, node in definitions(tree):
        found[name] = first_line(node)
        methods = node.body if isinstance(node, ast.ClassDef) else []
        for method in [m for m in methods if isinstance(m, ast.FunctionDef)]:
            found[f"{name}.{method.name}"] = first_line(method)
    found = {f: line for f, line in found.items() if "." not in f or is_for_users(f, line)}
    for name in listed(tree):
        if name not in found:
            yield name, "", constant_line(module, name)
            continue
        for full, line in found.items():
            if full == name or full.startswith(f"{name}."):
                yield full, f"#{full.lower()}", line


def in_table(line):
    "A line as a cell of a table, where a bar would end it."
    return line.replace("|", r"\|")


def module_table(module, nb):
    "Heading and table of a module; nothing if it has no public names."
    link = NbdevLookup().link_line
    rows = [f"| [`{name}`]({page_of(nb)}{anchor}) | {in_table(link(line))} |"
            for name, anchor, line in public_names(module)]
    if rows:
        yield f"### {module} {{ #{module.replace('.', '-')} }}"
        yield link(re.sub(r"\[(.*?)\]\(.*?\)", r"\1", first_line(module_tree(module))))
        yield "\n".join(["| Name | What it does |", "|---|---|", *rows])


def names_page():
    "The page of all public names as Markdown."
    pages = {module_name(nb): nb for nb in notebooks() if module_name(nb)}
    parts = [f"# {TITLE}\n\n> {SUBTITLE}", "## Everyday"]
    parts += ["```python\nfrom fairw2_nb import " + ", ".join(list(fairw2_nb.PLACES)[:4]) + "\n```"]
    parts += ["These are imported when they are first used, all others from their module.",
              *everyday(pages)]
    internals = [m for m in pages if is_internal(pages[m])]
    open_ones = [m for m in pages if m not in internals]
    groups = {room: [m for m in open_ones if m.startswith(f"{room}.")] for room in rooms()}
    groups["command line"] = [m for m in open_ones if "." not in m]
    groups["internals"] = internals
    for title, found in groups.items():
        entries = [part for module in found for part in module_table(module, pages[module])]
        parts += [f"## {title.capitalize()}", *entries] if entries else []
    return "\n\n".join(filter(None, parts)) + "\n"
