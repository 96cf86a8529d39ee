"""The site under docs/ as a reader meets it: links on the files themselves, the rest in a browser on localhost."""
import re
import shutil
import sys
import threading
from functools import lru_cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import unquote, urljoin, urlparse

import markdown
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import site_pages
import site_text

DOCS = ROOT / "docs"
READING_ORDER = [site_pages.page_of(nb) for nb in site_pages.notebooks()] + [site_pages.API_PAGE]
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-component-update", "--disable-sync"]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
pytestmark = pytest.mark.xdist_group("browser")  # one browser serves all tests of this file
each_page = pytest.mark.parametrize("page", READING_ORDER)

# TeX or Markdown that a reader would see as such: text outside code and typeset equations
RAW_MARKUP = r"""() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    if (walker.currentNode.parentElement.closest("pre, code, script, style, mjx-container")) continue;
    if (/\$\S[^$]*\$|\\[(\[]|\\begin\{|^:::|\*\*/m.test(text)) found.push(text.trim());
  }
  return found;
}"""
# elements that reach beyond the right edge and stand in no box that scrolls
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter(e => {
  if (e.closest("mjx-assistive-mml") || e.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let box = e; box.tagName != "ARTICLE"; box = box.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX)) return false;
  return true;
}).map(e => e.outerHTML.slice(0, 80))"""


# Markdown as Jupyter and Quarto read it, and the HTML it should give
DIALECT = {
    "maths with a bar in a table": ("| a | b |\n|---|---|\n| $|x|$ | `p|q` |", "<td><code>p|q</code></td>"),
    "maths with stars": ("$a*b$ and $c*d$", r"<span class=arithmatex>\(a*b\)</span> and <span class=arithmatex>\(c*d\)</span>"),
    "maths with underscores": ("$x_1$ and $x_2$", r"\(x_1\)</span> and <span class=arithmatex>\(x_2\)"),
    "money": ("It costs $5, or $6.", "<p>It costs $5, or $6.</p>"),
    "maths in code": ("`$x$`", "<code>$x$</code>"),
    "list after a line": ("so:\n- one\n- two", "<li>one</li>\n<li>two</li>"),
    "list indented by two": ("- one\n  - deep", "<li>one<ul>\n<li>deep</li>"),
    "number in a sentence": ("In the year\n2019. It was.", "<p>In the year\n2019. It was.</p>"),
    "table after a line": ("so:\n| a | b |\n|---|---|\n| 1 | 2 |", "<td>1</td>"),
    "callout": ("::: {.callout-note}\n## On $x_1$\nText.\n:::", '<p class="admonition-title">On <span'),
    "callout without title": ("::: {.callout-tip}\nText.\n:::", '<p class="admonition-title">Tip</p>\n<p>Text.</p>'),
    "folded callout": ('::: {.callout-note collapse="true"}\n## More\nText.\n:::', "<summary>More</summary>\n<p>Text.</p>"),
}


class Page(HTMLParser):
    "The ids, links and loaded files of a page."

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded, self.next = [], [], [], None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if tag == "a" and attrs.get("href") else []
        self.loaded += [attrs["src"]] if "src" in attrs else []
        if tag == "link" and attrs["rel"] in ("stylesheet", "icon", "preconnect"):
            self.loaded.append(attrs["href"])
        if tag == "link" and attrs["rel"] == "next":
            self.next = attrs["href"]


@lru_cache(None)
def parsed(page):
    "The page at this path under docs/, read once."
    return Page(DOCS / page)


def target(page, link):
    "Path under docs/ and anchor that a link on a page leads to."
    parts = urlparse(urljoin(f"/{page}", link))
    return unquote(parts.path).lstrip("/"), unquote(parts.fragment)


@pytest.mark.parametrize("source, expected", DIALECT.values(), ids=DIALECT)
def test_markdown_dialect(source, expected):
    "What authors write in a notebook comes out as they mean it."
    text = site_text.for_site(source, address=str)
    page = markdown.markdown(text, extensions=["admonition", "tables", "sane_lists", "pymdownx.details"])
    assert expected in re.sub(r"&#(\d+);", lambda m: chr(int(m[1])), page)


@pytest.mark.parametrize("source, problem", [("::: {.column}\n:::", "is not known"), ("::: {.callout-note}\ntext", "is not closed")])
def test_wrong_callouts_are_named(source, problem):
    "A block that the site does not know is refused with a sentence."
    with pytest.raises(ValueError, match=problem):
        site_text.for_site(source, address=str)


@each_page
def test_links_resolve(page):
    "Every internal link leads to a file, every anchor to an element, and no id stands twice."
    for link in parsed(page).links:
        if urlparse(link).scheme:
            continue
        path, anchor = target(page, link)
        assert (DOCS / path).is_file(), f"docs/{page} links to {link}, and there is no docs/{path}."
        assert not anchor or anchor in parsed(path).ids, f"docs/{page} links to {link}, and docs/{path} has no such anchor."
    ids = [i for i in parsed(page).ids if not i.startswith("__")]
    assert len(ids) == len(set(ids)), f"docs/{page} has these anchors twice: {sorted({i for i in ids if ids.count(i) > 1})}."


@each_page
def test_loads_only_local_files(page):
    "Scripts, styles and images are shipped with the site."
    for link in parsed(page).loaded:
        if not link.startswith("data:"):
            assert not urlparse(link).netloc, f"docs/{page} loads {link} from the network."
            assert (DOCS / target(page, link)[0]).is_file(), f"docs/{page} loads {link}, which is not under docs/."


def test_next_links_follow_the_paper():
    "Going from next to next visits every page once, in reading order."
    walk = ["index.html"]
    while (following := parsed(walk[-1]).next) and len(walk) <= len(READING_ORDER):
        walk.append(target(walk[-1], following)[0])
    assert walk == READING_ORDER


@pytest.fixture(scope="module")
def address():
    "The address of docs/ served on a free port."
    class Silent(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections open

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("localhost", 0), partial(Silent, directory=DOCS)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def reader():
    "A browser session, shared by all tests, of a reader who prefers light colours."
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not executable:
        pytest.skip(f"no browser was found (looked for {', '.join(BROWSERS)})")
    with playwright.sync_playwright() as play:
        running = play.chromium.launch(executable_path=executable, args=FLAGS)
        yield running.new_context(viewport=DESK, color_scheme="light")
        running.close()


def wait_for_maths(tab):
    "Wait until MathJax is done, on pages that have equations."
    tab.wait_for_function("!document.querySelector('.arithmatex') || document.documentElement.dataset.maths == 'ready'")


@pytest.fixture(scope="module")
def visit(reader, address):
    "A function that opens a page once, at both widths and with all folds open, and returns what was seen."
    @lru_cache(None)
    def look(page):
        tab, seen = reader.new_page(), SimpleNamespace(complaints=[], requests=[])
        tab.on("console", lambda m: seen.complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: seen.complaints.append(str(e)))
        tab.on("requestfailed", lambda r: seen.complaints.append(f"{r.url} failed"))
        tab.on("request", lambda r: seen.requests.append(r.url))
        seen.status = tab.goto(f"{address}/{page}").status
        wait_for_maths(tab)
        seen.equations = tab.locator(".arithmatex").count()
        seen.typeset = tab.locator(".arithmatex > mjx-container").count()
        seen.errors = tab.locator("mjx-merror, [data-mjx-error]").count()
        seen.raw = tab.evaluate(RAW_MARKUP)
        tab.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        tab.set_viewport_size(PHONE)
        tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen.phone_width = tab.evaluate("document.scrollingElement.scrollWidth")
        seen.sticking_out = tab.evaluate(STICKING_OUT)
        tab.close()
        return seen

    return look


@pytest.fixture
def tab(reader):
    "A fresh tab."
    opened = reader.new_page()
    yield opened
    opened.close()


@each_page
def test_opens_quietly(visit, address, page):
    "The page loads, the console stays empty, and no request leaves localhost."
    seen = visit(page)
    assert seen.status == 200
    assert not seen.complaints, f"docs/{page} complains in the console: {seen.complaints}"
    outside = [url for url in seen.requests if not url.startswith((address, "data:", "blob:"))]
    assert not outside, f"docs/{page} asks the network for {outside}"


@each_page
def test_equations_are_typeset(visit, page):
    "Every equation is typeset without error, and no TeX or Markdown is left as text."
    seen = visit(page)
    assert seen.typeset == seen.equations, f"docs/{page}: {seen.typeset} of {seen.equations} equations are typeset."
    assert seen.errors == 0, f"docs/{page}: MathJax reports {seen.errors} errors."
    assert not seen.raw, f"docs/{page} shows markup as text: {seen.raw}"


@each_page
def test_fits_a_phone(visit, page):
    "At 390 pixels the page does not scroll sideways; wide things scroll in their own box."
    seen = visit(page)
    assert seen.phone_width <= PHONE["width"], f"docs/{page} is {seen.phone_width} pixels wide on a phone."
    assert not seen.sticking_out, f"docs/{page}: cut off on a phone: {seen.sticking_out[:5]}"


def test_site_has_equations(visit):
    "The counts above are not all zero."
    assert sum(visit(page).typeset for page in READING_ORDER) > 20


def test_search_finds_a_term(tab, address):
    "Typing a word shows results, and the first one leads to a page with that word."
    tab.goto(f"{address}/index.html")
    tab.get_by_role("button", name="Search").click()
    tab.keyboard.type("Wasserstein")
    results = tab.get_by_role("option")
    results.first.wait_for()
    results.first.click()
    tab.wait_for_url("**/*h=*")
    assert "wasserstein" in tab.locator("article").inner_text().lower()


def test_dark_and_light(tab, address):
    "The switch changes the colours, and the choice holds on the next page."
    def colours():
        return tab.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")

    tab.goto(f"{address}/index.html")
    light = colours()
    tab.get_by_title("Switch to dark mode").click()
    tab.wait_for_selector("body[data-md-color-scheme=slate]")
    dark = colours()
    assert light[0] != dark[0] and light[1] != dark[1]
    tab.goto(f"{address}/{site_pages.API_PAGE}")
    assert colours() == dark
    tab.get_by_title("Switch to light mode").click()
    tab.wait_for_selector("body[data-md-color-scheme=default]")
    assert colours() == light


def test_source_unfolds(tab, address):
    "The source of an exported definition is folded, and opens with a click."
    page = next(p for p in READING_ORDER if 'class="source"' in (DOCS / p).read_text(encoding="utf-8"))
    tab.goto(f"{address}/{page}")
    fold = tab.locator("details.source").first
    assert not fold.locator("pre").is_visible()
    fold.locator("summary").click()
    fold.locator("pre").wait_for(state="visible")


def test_previous_and_next(tab, address):
    "The footer leads to the next page and back."
    tab.goto(f"{address}/index.html")
    tab.locator(".md-footer__link--next").click()
    tab.wait_for_url(f"{address}/{READING_ORDER[1]}")
    tab.locator(".md-footer__link--prev").click()
    tab.wait_for_url(f"{address}/index.html")
