"""Builds docs/ and README.md from the notebooks, offline: `python tools/build_docs.py`.

nbdev's own filters run first (hidden cells, `show_doc`, symbol links), then each notebook is written as Markdown,
then zensical turns the Markdown into HTML. The same notebooks always give the same bytes.
"""
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import files as package_files
from pathlib import Path

import yaml
from execnb.nbio import read_nb
from nbdev.config import get_config
from nbdev.doclinks import _build_modidx
from nbdev.processors import FilterDefaults, FrontmatterProc, add_fold, insert_warning, mv_exports

from site_cells import SiteWriter, readme
from site_pages import (API_PAGE, DOCS, NBS, ROOT, SECTIONS, all_notebooks_sha256, builder_sha256, notebook_sha256,
                        notebooks, page_of, settings)
from site_symbols import SymbolRenderer, names_page
from site_text import for_site, plain

SITE = ROOT / "tools" / "site"
HEAD = re.compile(r"\A\s*# +(?P<title>.+?) *(?:\n+|\Z)(?:> *(?P<subtitle>.+?) *(?:\n|\Z))?(?P<intro>.*)\Z", re.S)


class SiteFilters(FilterDefaults):
    "nbdev's filters without those that write for Quarto; exported code stays on the page, folded."

    def base_procs(self):
        quarto = (FrontmatterProc, insert_warning, add_fold, mv_exports)
        return [proc for proc in super().base_procs() if proc not in quarto]


def processed(nb):
    "The cells of a notebook after nbdev's filters; exported code is kept, folded, below its documentation."
    book = read_nb(nb)
    for cell in book.cells:
        cell.source = re.sub(r"^#\| *exporti?\b", "#| exports", cell.source, flags=re.M)
    SymbolRenderer.shown_apart = set(re.findall(r"^show_doc\(([\w.]+)", "\n".join(c.source for c in book.cells), re.M))
    SiteFilters()(book)
    cells, start = [], 0
    for cell in book.cells:
        if "exports" in getattr(cell, "directives_", {}):
            start = len(cells)
            private = " ".join(re.findall(r"^(?:def|class) (_(?!_)\w+)", cell.source, re.M))
            summary = "Source" if re.search(r"^(@|def |class |\w+ *=)", cell.source, re.M) else "Imports"
            cell.source = f"#| code-fold: true\n#| code-summary: {summary}\n#| anchors: {private}\n{cell.source}"
        cells.insert(start if getattr(cell, "has_sd", False) else len(cells), cell)
    return cells


def front_matter(title, subtitle, sha256, body):
    "The header that hands title, description and hash of a page to the site generator."
    meta = dict(title=title, description=plain(subtitle or title), notebook_sha256=sha256, math="class=arithmatex" in body)
    return f"---\n{yaml.safe_dump(meta, allow_unicode=True, width=1000)}---\n\n"


def page(title, subtitle, body, sha256, address, notebook=None):
    "A whole page: heading, subtitle, link to the notebook, body."
    top = [for_site(f"# {title}", address)]
    if subtitle:
        top.append(for_site(subtitle, address) + "\n{ .subtitle }")
    if notebook:
        top.append(f"[Notebook]({notebook}){{ .notebook-link title=\"The notebook behind this page\" }}")
    body = "\n\n".join([*top, body])
    return front_matter(plain(title), subtitle, sha256, body) + body


def notebook_page(nb):
    "The Markdown of a notebook's page, its title and its figures."
    writer, cells = SiteWriter(nb), processed(nb)
    head = HEAD.match(cells[0]["source"]) if cells else None
    if not head:
        writer.error("the first cell must start with `# Title`")
    cells[0]["source"] = head["intro"]
    cfg = settings()
    source = f"{cfg['git_url']}/blob/{cfg['branch']}/{nb.relative_to(ROOT).as_posix()}"
    text = page(head["title"], head["subtitle"], writer.write(cells), notebook_sha256(nb), writer.address, source)
    return text, plain(head["title"]), writer.files


def api_page(modidx):
    "The page of public names."
    writer = SiteWriter(NBS / "api.ipynb")
    head = HEAD.match(names_page(modidx))
    return page(head["title"], head["subtitle"], writer.text(head["intro"]), all_notebooks_sha256(), writer.address), head["title"]


def write(path, content):
    "Write text or bytes, making folders as needed."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_pages(folder):
    "Write the Markdown of all pages into `folder` and return the navigation."
    nav = {section: [] for section in SECTIONS.values()}
    home = []
    for nb in notebooks():
        text, title, figures = notebook_page(nb)
        name = page_of(nb).replace(".html", ".md")
        if name == "index.md":
            home.append({"Home": name})
        else:
            nav[SECTIONS[nb.parent.relative_to(NBS).as_posix()]].append({title: name})
        for path, content in {name: text, **figures}.items():
            write(folder / path, content)
    modidx = runpy.run_path(str(get_config().lib_path / "_modidx.py"))["d"]
    text, title = api_page(modidx)
    nav[SECTIONS["api"]].append({title: API_PAGE.replace(".html", ".md")})
    write(folder / API_PAGE.replace(".html", ".md"), text)
    return home + [{section: pages} for section, pages in nav.items() if pages]


def copy_assets(folder):
    "Styles, scripts and MathJax: everything a page loads is shipped with the site."
    shutil.copytree(SITE / "assets", folder / "assets")
    mathjax = next(f for f in package_files("sphinx-mathjax-offline") if f.name == "tex-svg-full.js")
    shutil.copy(mathjax.locate(), folder / "assets" / "mathjax.js")


def readable_search(path):
    "Drop the signs around equations from the search index: results are shown without MathJax."
    index = json.loads(path.read_text(encoding="utf-8"))
    for item in index["items"]:
        item |= {key: re.sub(r"\\[][()]", "", item[key]) for key in ("title", "text")}
    path.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def build_site(work):
    "Build the site inside the folder `work` and return where it lies."
    cfg, config = settings(), yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    copy_assets(work / "pages")
    shutil.copytree(SITE / "overrides", work / "overrides")
    config |= dict(site_name=cfg["title"], site_description=cfg["description"], copyright=cfg["copyright"],
                   site_url=cfg["doc_host"] + cfg["doc_baseurl"] + "/", docs_dir="pages", site_dir="site",
                   nav=write_pages(work / "pages"))
    config["theme"]["custom_dir"] = "overrides"
    config["extra"] = {"builder_sha256": builder_sha256()}
    write(work / "mkdocs.yml", yaml.safe_dump(config, sort_keys=False))
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean"], cwd=work, capture_output=True, text=True)
    if done.returncode or not (work / "site" / "index.html").exists():
        raise SystemExit(f"zensical could not build the site:\n{done.stdout}{done.stderr}")
    readable_search(work / "site" / "search.json")
    return work / "site"


def main():
    "Build docs/ and README.md."
    if not (NBS / "index.ipynb").exists():
        raise SystemExit("nbs/index.ipynb is missing: it becomes the first page of the site and README.md.")
    os.chdir(ROOT)  # nbdev looks for settings.ini from here
    sys.path.insert(0, str(ROOT))
    get_config().d["renderer"] = "site_symbols.SymbolRenderer"
    _build_modidx()
    with tempfile.TemporaryDirectory() as work:
        site = build_site(Path(work))
        shutil.rmtree(DOCS, ignore_errors=True)
        shutil.copytree(site, DOCS)
    write(ROOT / "README.md", readme()[0])
    print(f"docs/ holds {len(list(DOCS.rglob('*.html')))} pages; README.md is in step with nbs/index.ipynb.")


if __name__ == "__main__":
    main()
