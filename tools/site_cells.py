"""Writes the cells of a notebook as Markdown: `SiteWriter` for pages, `ReadmeWriter` for README."""
import base64
import html
import os
import re
from pathlib import Path
from textwrap import indent

from markdown.extensions.toc import slugify

from site_pages import NBS, ROOT, page_of, read_cells, settings
from site_text import for_readme, for_site, plain

HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
DIRECTIVE = re.compile(r"^#\| *([\w-]+):? *(.*)\n?", re.M)
IMAGES = {"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpg"}
NO_ALT = "Figure drawn by the code above"
HIDING = {"hide", "default_exp"}


def joined(text):
    "Notebook files store a text as one string or as a list of lines."
    return text if isinstance(text, str) else "".join(text)


def unquoted(value):
    "The value of a directive without quotation marks, inside which a backslash is written twice."
    return value[1:-1].replace(r"\\", "\\") if value[:1] == value[-1:] == '"' else value


def fence(code, language):
    "A fenced code block whose fence is longer than any inside."
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{ticks}{language}\n{code}\n{ticks}"


class Writer:
    "Walks over the outputs of cells; the subclasses say how each kind is written."

    def __init__(self, nb):
        self.nb, self.files = nb, {}  # files: path relative to docs/ -> bytes of a figure
        texts = [cell["source"] for cell in read_cells(nb)] if nb.exists() else []
        headings = HEADING.findall("\n".join(texts))
        self.anchors = {slugify(heading, "-") for heading in headings}  # taken so far

    def error(self, what):
        "Stop with a sentence that names the notebook."
        raise SystemExit(f"{self.nb.relative_to(ROOT)}: {what}.")

    def markdown(self, cell):
        "A text cell."
        try:
            return self.text(joined(cell["source"]))
        except ValueError as problem:
            self.error(problem)

    def code(self, cell):
        "A code cell with its outputs, as its directives ask."
        options = dict(DIRECTIVE.findall(cell["source"]))
        if HIDING & options.keys() or options.get("include") == "false":
            return ""
        source = DIRECTIVE.sub("", cell["source"]).strip("\n")
        parts = [self.source(source, options)] if source and options.get("echo") != "false" else []
        if options.get("output") != "false":
            parts += [self.output(o, options) for o in merge_streams(cell.get("outputs", []))]
        return "\n\n".join(filter(None, parts))

    def output(self, output, options):
        "One output in the richest form that can be shown."
        if output["output_type"] == "error":
            return self.plain(f"{output['ename']}: {output['evalue']}")
        if output["output_type"] == "stream":
            return self.plain(joined(output["text"]))
        data = {kind: joined(value) for kind, value in output["data"].items()
                if kind.startswith(("text", "image"))}
        for kind, suffix in IMAGES.items():
            if kind in data:
                return self.figure(self.store(data[kind], suffix), options)
        for kind in ("text/markdown", "text/latex"):
            if kind in data:
                return self.text(data[kind])
        if "text/html" in data:
            return self.html(data["text/html"])
        return self.plain(data.get("text/plain", ""))

    def store(self, data, suffix):
        "Keep a figure for writing and return its path relative to docs/."
        page = Path(page_of(self.nb))
        name = f"figure-{len(self.files) + 1}.{suffix}"
        path = (page.parent / f"{page.stem}_files" / name).as_posix()
        self.files[path] = data.encode() if suffix == "svg" else base64.b64decode(data)
        return path

    def write(self, cells):
        "The Markdown of all cells."
        kinds = {"markdown": self.markdown, "code": self.code}
        written = [kinds[c["cell_type"]](c) for c in cells if c["cell_type"] in kinds]
        return "\n\n".join(filter(None, written)) + "\n"


def merge_streams(outputs):
    "Outputs with consecutive prints joined into one."
    merged = []
    for output in outputs:
        if merged and output["output_type"] == merged[-1]["output_type"] == "stream":
            merged[-1] = {**merged[-1], "text": joined(merged[-1]["text"]) + joined(output["text"])}
        else:
            merged.append(output)
    return merged


def clean_table(markup):
    "The HTML of a table without pandas' inline style and borders."
    markup = re.sub(r"<style.*?</style>\s*|<link\b[^>]*>", "", markup, flags=re.S)
    return re.sub(r' border="1"| style="text-align: right;"', "", markup)


def public_part(anchor):
    "The anchor that stands for a symbol: private methods are described with their class."
    owner, _, member = anchor.partition(".")
    return owner if owner.startswith("_") or member.startswith("_") else anchor


class SiteWriter(Writer):
    "Markdown for the site generator: folded sources, boxed outputs, links between pages."

    def address(self, target):
        "A link to a notebook or to the published site becomes a link between pages."
        cfg = settings()
        site, here = cfg["doc_host"] + cfg["doc_baseurl"] + "/", Path(page_of(self.nb)).parent
        path, hash_sign, anchor = target.partition("#")
        if path.startswith(site):
            path, anchor = path.removeprefix(site), public_part(anchor)
        elif path.endswith(".ipynb") and "://" not in path:
            path = page_of(NBS / os.path.normpath(self.nb.parent.relative_to(NBS) / path))
        else:
            return target
        return Path(os.path.relpath(path, here)).as_posix() + hash_sign + anchor

    def text(self, text):
        return for_site(text, self.address)

    def source(self, code, options):
        block = fence(code, "python")
        names = [name for name in options.get("anchors", "").split() if name not in self.anchors]
        self.anchors |= set(names)
        anchors = "".join(f"<span class=anchor id={name}></span>" for name in names)
        if options.get("code-fold", "false") == "false":
            return f"{anchors}\n\n{block}" if anchors else block
        summary = unquoted(options.get("code-summary", "Code"))
        return f'??? source "{anchors}{summary}"\n\n{indent(block, "    ")}'

    def plain(self, text):
        escaped = html.escape(text.strip("\n"), quote=False)
        return f'<pre class="output output-text">{escaped}</pre>' if escaped else ""

    def html(self, markup):
        return f'<div class="output output-html">\n{clean_table(markup)}\n</div>'

    def figure(self, path, options):
        src = os.path.relpath(path, Path(page_of(self.nb)).parent)
        caption = unquoted(options.get("fig-cap", ""))
        alt = unquoted(options.get("fig-alt", "")) or plain(caption) or NO_ALT
        alt = html.escape(alt)
        image = f'<img src="{src}" alt="{alt}">'
        below = f"\n<figcaption markdown=span>{self.text(caption)}</figcaption>" if caption else ""
        return f'<figure class="output output-figure" markdown=block>\n{image}{below}\n</figure>'


class ReadmeWriter(Writer):
    "Markdown for GitHub: nothing but what its own renderer knows."

    def address(self, target):
        "A link to a notebook, seen from the top folder."
        outside = "://" in target or target.startswith("#")
        return target if outside else os.path.normpath(Path("nbs") / target)

    def text(self, text):
        return for_readme(text, self.address)

    def source(self, code, options):
        return fence(code, "python")

    def plain(self, text):
        return fence(text.strip("\n"), "text")

    def html(self, markup):
        return clean_table(markup)

    def figure(self, path, options):
        return f"![{unquoted(options.get('fig-alt', NO_ALT))}](docs/{path})"


def readme():
    "The text of README.md as it follows from nbs/index.ipynb, and the figures it shows."
    writer = ReadmeWriter(NBS / "index.ipynb")
    note = "<!-- Written by tools/build_docs.py from nbs/index.ipynb: edit the notebook. -->\n\n"
    return note + writer.write(read_cells(writer.nb)), writer.files
