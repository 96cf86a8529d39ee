"""Builds docs/ and README.md from the notebooks, offline: `python tools/build_docs.py`.

nbdev's own filters run first (hidden cells, `show_doc`, symbol links), then each notebook is
written as Markdown, then zensical turns the Markdown into HTML. The same notebooks always give the
same bytes. With a folder as argument the site is built there, and README.md is left alone.
"""
import ast
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import files as package_files
from pathlib import Path

import yaml
from execnb.nbio import read_nb
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup, _build_modidx
from nbdev.processors import (FilterDefaults, FrontmatterProc, add_fold, add_links, exec_show_docs,
                              insert_warning, mv_exports)

from site_cells import SiteWriter, readme
from site_names import listed, module_tree, names_page
from site_pages import (API_PAGE, DOCS, NBS, ROOT, all_notebooks_sha256, builder_sha256,
                        notebook_sha256, notebooks, page_of, rooms, section, sections, settings)
from site_policy import with_policy
from site_search import readable_index
from site_symbols import SymbolRenderer, anchors, folded_title
from site_text import for_site, plain

SITE = ROOT / "tools" / "site"
HEAD = re.compile(r"\A\s*# +(?P<title>.+?) *(?:\n+|\Z)(?:> *(?P<subtitle>.+?) *(?:\n|\Z))?"
                  r"(?P<intro>.*)\Z", re.S)

NAME = re.compile(r"^#.*?$|^    .*?$|^```.*?^```|\[[^][]*\]\([^)]*\)|(?P<name>`[^`\s]+`)",
                  re.M | re.S)
IMPORTS = "#| code-fold: true\n#| code-summary: Imports\n"


def full_names(cell):
    "A method that was patched in behind a decorator has forgotten its class: say it."
    if getattr(cell, "has_sd", False):
        cell.source = re.sub(r"show_doc\(([\w.]+)\)", r'show_doc(\1, name="\1")', cell.source)


@cache
def promised():
    "The public names of all modules."
    modules = [path.relative_to(ROOT / "fairw2_nb").with_suffix("").as_posix()
               for path in (ROOT / "fairw2_nb").glob("*/*.py")]
    return {name for module in modules for name in listed(module_tree(module))}


def is_name(word):
    "Whether a word in backticks means code: a plain word such as `first` does if it is public."
    return not word.islower() or "_" in word or "." in word or word in promised()


def symbol_links(cell):
    "Names in backticks become links, except in headings, in code and in the text of a link."
    link = NbdevLookup().link_line
    def linked(m): return link(m[0]) if m["name"] and is_name(m[0].strip("`")) else m[0]
    if cell.cell_type == "markdown":
        cell.source = NAME.sub(linked, cell.source)


class SiteFilters(FilterDefaults):
    "nbdev's filters without those that write for Quarto; exported code stays on the page."

    def base_procs(self):
        quarto = (FrontmatterProc, insert_warning, add_fold, mv_exports)
        procs = [proc for proc in super().base_procs() if proc not in quarto]
        procs.insert(procs.index(exec_show_docs), full_names)
        return [symbol_links if proc is add_links else proc for proc in procs]


def marked(source):
    "A cell whose exported code shall stay on the page: nbdev's word for that is `exports`."
    source = re.sub(r"^#\| *exporti\b", "#| inside\n#| exporti", source, flags=re.M)
    return re.sub(r"^#\| *exporti?\b", "#| exports", source, flags=re.M)


def as_source(cell):
    "Directives for an exported cell: open where it is `shown`, else folded, with its anchors."
    kinds = getattr(cell, "directives_", {})
    own_entry = "inside" not in kinds and "shown" not in kinds
    options = {"anchors": " ".join(anchors(cell.source, own_entry))}
    if "shown" not in kinds:
        options |= {"code-fold": "true", "code-summary": folded_title(cell.source, own_entry)}
    lines = [f"#| {key}: {value}" for key, value in options.items()]
    return "\n".join([*lines, cell.source])


def only_imports(source):
    "Whether a cell holds imports and nothing else."
    body = ast.parse(re.sub(r"^[%!].*$", "pass", source, flags=re.M)).body
    return bool(body) and all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body)


def fold_imports(cells, cell):
    "Add a cell of imports, folded; to the one before it, if that holds imports too."
    if cells and cells[-1].source.startswith(IMPORTS):
        cells[-1].source += "\n" + cell.source
    else:
        cell.source = IMPORTS + cell.source
        cells.append(cell)


def processed(nb):
    "The cells of a notebook after nbdev's filters, each exported one beside what is said of it."
    book = read_nb(nb)
    for cell in book.cells:
        cell.source = marked(cell.source)
    everything = "\n".join(c.source for c in book.cells)
    SymbolRenderer.shown_apart = set(re.findall(r"^show_doc\(([\w.]+)", everything, re.M))
    shown = [c.source for c in book.cells if re.search(r"^#\| *shown\b", c.source, re.M)]
    SymbolRenderer.folded = {name for source in shown for name in anchors(source, False)}
    SiteFilters()(book)
    cells, start, above = [], 0, {}
    for cell in [cell for cell in book.cells if cell.source or cell.get("outputs")]:
        if cell.cell_type == "code" and nb.parent.name in rooms() and only_imports(cell.source):
            fold_imports(cells, cell)
        elif "exports" in getattr(cell, "directives_", {}):
            start, above = len(cells), cell.directives_
            cell.source = as_source(cell)
            cells.append(cell)
        elif not getattr(cell, "has_sd", False):
            cells.append(cell)
        elif "shown" in above:
            cells.append(cell)  # parameters, folded, below the code
        elif "inside" not in above:
            cells.insert(start, cell)  # above the source, which is folded
            start += 1
    return cells


def front_matter(title, subtitle, sha256, body):
    "The header that hands title, description and hash of a page to the site generator."
    meta = dict(title=title, description=html.escape(plain(subtitle or title)),
                notebook_sha256=sha256, math="class=arithmatex" in body)
    return f"---\n{yaml.safe_dump(meta, allow_unicode=True, width=1000)}---\n\n"


def how_to_run(nb):
    "A line that says where the notebook of a page is and how to run it."
    cfg, path = settings(), nb.relative_to(ROOT).as_posix()
    source = f"{cfg['git_url']}/blob/{cfg['branch']}/{path}"
    install = f"pip install git+{cfg['git_url']} jupyterlab"
    return (f"[Run this notebook]({source}): `{install}`, then `jupyter lab {nb.name}`\n"
            "{ .how-to-run }")


def page(title, subtitle, body, sha256, address, below=None):
    "A whole page: heading, subtitle, a line below it, body."
    top = [for_site(f"# {title}", address)]
    if subtitle:
        top.append(for_site(subtitle, address) + "\n{ .subtitle }")
    body = "\n\n".join([*top, *filter(None, [below]), body])
    return front_matter(plain(title), subtitle, sha256, body) + body


def notebook_page(nb):
    "The Markdown of a notebook's page, its title and its figures."
    writer, cells = SiteWriter(nb), processed(nb)
    head = HEAD.match(cells[0]["source"]) if cells else None
    if not head:
        writer.error("the first cell must start with `# Title`")
    cells[0]["source"] = re.sub(r"^- *kind:.*\n?", "", head["intro"], flags=re.M)
    text = page(head["title"], head["subtitle"], writer.write(cells), notebook_sha256(nb),
                writer.address, how_to_run(nb))
    return text, plain(head["title"]), writer.files


def api_page():
    "The page of public names."
    writer = SiteWriter(NBS / "api.ipynb")
    head = HEAD.match(names_page())
    body = writer.text(head["intro"])
    return page(head["title"], head["subtitle"], body, all_notebooks_sha256(), writer.address)


def write(path, content):
    "Write text or bytes, making folders as needed."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_pages(folder):
    "Write the Markdown of all pages into `folder` and return the navigation."
    nav = {part: [] for part in [None, *sections()]}
    for nb in notebooks():
        text, title, figures = notebook_page(nb)
        name = page_of(nb).replace(".html", ".md")
        nav[section(nb)].append({title if section(nb) else "Home": name})
        for path, content in {name: text, **figures}.items():
            write(folder / path, content)
    name = API_PAGE.replace(".html", ".md")
    nav["Reference"].append({"Names": name})
    write(folder / name, api_page())
    return nav[None] + [{part: pages} for part, pages in nav.items() if part and pages]


def copy_assets(folder):
    "Styles, scripts and MathJax: everything a page loads is shipped with the site."
    shutil.copytree(SITE / "assets", folder / "assets")
    shipped = package_files("sphinx-mathjax-offline")
    mathjax = next(f for f in shipped if f.name == "tex-svg-full.js")
    shutil.copy(mathjax.locate(), folder / "assets" / "mathjax.js")


def build_site(work):
    "Build the site inside the folder `work` and return where it lies."
    cfg, config = settings(), yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    copy_assets(work / "pages")
    shutil.copytree(SITE / "overrides", work / "overrides")
    config |= dict(site_name=cfg["title"], site_description=cfg["description"],
                   copyright=cfg["copyright"], repo_url=cfg["git_url"], repo_name=cfg["title"],
                   site_url=cfg["doc_host"] + cfg["doc_baseurl"] + "/", docs_dir="pages",
                   site_dir="site", nav=write_pages(work / "pages"))
    config["theme"]["custom_dir"] = "overrides"
    config["extra"] = {"builder_sha256": builder_sha256()}
    write(work / "mkdocs.yml", yaml.safe_dump(config, sort_keys=False))
    zensical = [sys.executable, "-m", "zensical", "build", "--clean"]
    done = subprocess.run(zensical, cwd=work, capture_output=True, text=True)
    if done.returncode or not (work / "site" / "index.html").exists():
        raise SystemExit(f"zensical could not build the site:\n{done.stdout}{done.stderr}")
    readable_index(work / "site" / "search.json")
    shutil.copy(SITE / "404.html", work / "site")
    for path in (work / "site").rglob("*.html"):
        write(path, with_policy(path.read_text(encoding="utf-8")))
    return work / "site"


def main(docs=DOCS):
    "Build the site into `docs`; README.md too if that is docs/."
    if not (NBS / "index.ipynb").exists():
        raise SystemExit("nbs/index.ipynb is missing: it becomes the first page and README.md.")
    os.chdir(ROOT)  # nbdev looks for settings.ini from here
    sys.path.insert(0, str(ROOT))
    get_config().d["renderer"] = "site_symbols.SymbolRenderer"
    _build_modidx()
    with tempfile.TemporaryDirectory() as work:
        site = build_site(Path(work))
        shutil.rmtree(docs, ignore_errors=True)
        shutil.copytree(site, docs)
    print(f"{docs} holds {len(list(docs.rglob('*.html')))} pages.")
    if docs == DOCS:
        write(ROOT / "README.md", readme()[0])
        print("README.md is in step with nbs/index.ipynb.")


if __name__ == "__main__":
    main(*(Path(folder).resolve() for folder in sys.argv[1:]))
