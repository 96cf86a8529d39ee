"""The site under docs/ as a reader meets it: links on the files, the rest in a browser."""
import base64
import hashlib
import json
import re
import shutil
import threading
from functools import lru_cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import unquote, urljoin, urlparse

import markdown
import pytest
import site_pages
import site_text
from conftest import notebook_id
from site_policy import policy, with_policy

DOCS = site_pages.DOCS
READING_ORDER = site_pages.all_pages()
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync"]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
FAR = "/far/down"  # there `visit` finds the site, with a search index of one entry
each_page = pytest.mark.parametrize("page", READING_ORDER)

# TeX or Markdown that a reader would see as such: text outside code and typeset equations
RAW_MARKUP = r"""() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    const around = walker.currentNode.parentElement;
    if (around.closest("pre, code, script, style, mjx-container")) continue;
    if (/\$\S[^$]*\$|\\[(\[]|\\begin\{|^:::|\*\*|\]\(|`|kind: internals/m.test(text))
      found.push(text.trim());
  }
  return found;
}"""
# code whose lines have at most 100 signs and that must be scrolled all the same
CUT_OFF = """() => [...document.querySelectorAll("article pre > code")].filter(e => {
  const longest = Math.max(...e.innerText.split("\\n").map(line => line.length));
  return longest <= 100 && e.scrollWidth > e.clientWidth + 1;
}).map(e => e.innerText.slice(0, 80))"""
# elements that reach beyond the right edge and stand in no box that scrolls
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter(e => {
  if (e.closest("mjx-assistive-mml")) return false;
  if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let box = e; box.tagName != "ARTICLE"; box = box.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX)) return false;
  return true;
}).map(e => e.outerHTML.slice(0, 80))"""


# Markdown as Jupyter and Quarto read it, and the HTML it should give
DIALECT = {
    "maths with a bar in a table": (
        "| a | b |\n|---|---|\n| $|x|$ | `p|q` |", "<td><code>p|q</code></td>"),
    "maths with stars": (
        "$a*b$ and $c*d$",
        r"<span class=arithmatex>\(a*b\)</span> and <span class=arithmatex>\(c*d\)</span>"),
    "maths with underscores": (
        "$x_1$ and $x_2$", r"\(x_1\)</span> and <span class=arithmatex>\(x_2\)"),
    "money": ("It costs $5, or $6.", "<p>It costs $5, or $6.</p>"),
    "maths in code": ("`$x$`", "<code>$x$</code>"),
    "list after a line": ("so:\n- one\n- two", "<li>one</li>\n<li>two</li>"),
    "list indented by two": ("- one\n  - deep", "<li>one<ul>\n<li>deep</li>"),
    "number in a sentence": ("In the year\n2019. It was.", "<p>In the year\n2019. It was.</p>"),
    "table after a line": ("so:\n| a | b |\n|---|---|\n| 1 | 2 |", "<td>1</td>"),
    "callout": (
        "::: {.callout-note}\n## On $x_1$\nText.\n:::", '<p class="admonition-title">On <span'),
    "callout without title": (
        "::: {.callout-tip}\nText.\n:::", '<p class="admonition-title">Tip</p>\n<p>Text.</p>'),
    "folded callout": (
        '::: {.callout-note collapse="true"}\n## More\nText.\n:::',
        "<summary>More</summary>\n<p>Text.</p>"),
}
# the same where no markup is understood: titles, descriptions, search
PLAIN = {
    r"The weight $\lambda$ of $\mathcal{W}_2^2$": "The weight λ of W₂²",
    "`fit` and *its* **loss**, [here](a.html)": "fit and its loss, here",
    "two * three": "two * three",
}
# what a reader may type, and the page that answers
SEARCHES = {
    "install": ["index.html"],
    "csv": ["start/own_table.html", "data/tables.html"],
    "threshold": ["start/", "metrics/"],
    "gpu": ["start/", "training/loop.html"],
    "WassersteinPenalty": ["penalty/loss.html"],
}


class Page(HTMLParser):
    "The ids, links, loaded files and description of a page."

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = [], [], []
        self.next = self.description = None
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
        if tag == "meta" and attrs.get("name") == "description":
            self.description = attrs["content"]


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
    kinds = ["admonition", "tables", "sane_lists", "pymdownx.details"]
    page = markdown.markdown(text, extensions=kinds)
    assert expected in re.sub(r"&#(\d+);", lambda m: chr(int(m[1])), page)


@pytest.mark.parametrize("source, expected", PLAIN.items())
def test_plain_text(source, expected):
    assert site_text.plain(source) == expected


@pytest.mark.parametrize("source, problem", [
    ("::: {.column}\n:::", "is not known"),
    ("::: {.callout-note}\ntext", "is not closed"),
])
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
        says = f"docs/{page} links to {link}"
        assert (DOCS / path).is_file(), f"{says}, and there is no docs/{path}."
        known = not anchor or anchor in parsed(path).ids
        assert known, f"{says}, and docs/{path} has no such anchor."
    ids = [i for i in parsed(page).ids if not i.startswith("__")]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    assert not twice, f"docs/{page} has these anchors twice: {twice}."


@each_page
def test_loads_only_local_files(page):
    "Scripts, styles and images are shipped with the site."
    for link in parsed(page).loaded:
        if not link.startswith("data:"):
            assert not urlparse(link).netloc, f"docs/{page} loads {link} from the network."
            there = (DOCS / target(page, link)[0]).is_file()
            assert there, f"docs/{page} loads {link}, which is not under docs/."


def test_policy_knows_the_scripts_that_were_built_in():
    "And no others: one that slips into a page is not run."
    page = '<meta charset="utf-8"><script>a()</script><script src="b.js"></script>'
    known = base64.b64encode(hashlib.sha256(b"a()").digest()).decode()
    said = policy(page)
    assert f"script-src 'self' 'sha256-{known}';" in said and "default-src 'none'" in said
    assert with_policy(page).index("Content-Security-Policy") < with_policy(page).index("<script")
    with pytest.raises(ValueError, match="charset"): with_policy("<html>")


@each_page
def test_has_its_policy(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert policy(text) in text, f"docs/{page} has no, or another, content security policy."


def test_a_foreign_script_is_not_run(tab, address):
    "Neither written into the page, nor fetched, nor evaluated."
    tab.goto(f"{address}/index.html")
    tab.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.foreign = 1";
        document.head.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.foreign = 2'>");
    }""")
    tab.wait_for_timeout(200)
    assert tab.evaluate("window.foreign") is None


@each_page
def test_head_of_a_page(page):
    "A description in plain words, and a link to the repository."
    text, links = parsed(page).description, parsed(page).links
    assert text and not re.search(r"[`$\\{}]|\]\(|\*\*|&\w+;", text), f"docs/{page}: {text}"
    repository = site_pages.settings()["git_url"]
    assert repository in links, f"docs/{page} does not link to {repository}."


@pytest.mark.parametrize("nb", site_pages.notebooks(), ids=notebook_id)
def test_says_how_to_run(nb):
    "The page leads to its notebook and names what to install."
    cfg, page = site_pages.settings(), site_pages.page_of(nb)
    source = f"{cfg['git_url']}/blob/{cfg['branch']}/{nb.relative_to(site_pages.ROOT).as_posix()}"
    assert source in parsed(page).links
    text = (DOCS / page).read_text(encoding="utf-8")
    assert "pip install" in text and f"jupyter lab {nb.name}" in text


def test_internals_stand_last():
    "After the last page of the other sections nothing but internals follows."
    internal = [nb for nb in site_pages.notebooks() if site_pages.is_internal(nb)]
    internal = set(map(site_pages.page_of, internal))
    assert internal == set(READING_ORDER[len(READING_ORDER) - len(internal):])
    assert READING_ORDER[0] == "index.html"


def test_next_links_follow_the_rooms():
    "Going from next to next visits every page once, in reading order."
    walk = ["index.html"]
    while (following := parsed(walk[-1]).next) and len(walk) <= len(READING_ORDER):
        walk.append(target(walk[-1], following)[0])
    assert walk == READING_ORDER


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    "The address of docs/ served on a free port."
    short = tmp_path_factory.mktemp("index") / "search.json"
    index = json.loads((DOCS / "search.json").read_text(encoding="utf-8"))
    short.write_text(json.dumps(index | {"items": index["items"][:1]}), encoding="utf-8")

    class Silent(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections open

        def log_message(self, *args):
            pass

        def send_error(self, code, *args):  # as a host of static pages does it
            page = (DOCS / "404.html").read_bytes()
            self.send_response(code)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            if self.command != "HEAD":  # an answer to HEAD has no body
                self.wfile.write(page)

        def translate_path(self, path):
            if path == f"{FAR}/search.json": return str(short)
            return super().translate_path(path.removeprefix(FAR).removeprefix("/some/base"))

    with ThreadingHTTPServer(("localhost", 0), partial(Silent, directory=DOCS)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def reader():
    "A browser session, shared by all tests, of a reader who prefers light colours."
    missing = "Playwright is not installed: pip install playwright"
    playwright = pytest.importorskip("playwright.sync_api", reason=missing)
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not executable:
        pytest.skip(f"no browser was found (looked for {', '.join(BROWSERS)})")
    with playwright.sync_playwright() as play:
        running = play.chromium.launch(executable_path=executable, args=FLAGS)
        session = running.new_context(viewport=DESK, color_scheme="light")
        session.set_default_timeout(120_000)  # a slow machine is not a failure
        yield session
        running.close()


def wait_for_maths(tab):
    "Wait until MathJax is done, on pages that have equations."
    done = "document.documentElement.dataset.maths == 'ready'"
    tab.wait_for_function(f"!document.querySelector('.arithmatex') || {done}")


def listen(tab, note):
    "Let `note` hear what a tab complains about."
    def hear(message):
        if message.type in ("error", "warning"): note(message.text)

    tab.on("console", hear)
    tab.on("pageerror", lambda e: note(str(e)))
    tab.on("requestfailed", lambda r: note(f"{r.url} failed"))


@pytest.fixture(scope="module")
def visit(reader, address):
    """A function that opens a page once, at both widths and all folds open; says what it saw.

    One tab visits all pages: a new one costs the browser as much work as a short page. So does
    reading the whole index for the search, which is left to the tests of the search."""
    tab, seen = reader.new_page(), None
    listen(tab, lambda text: seen.complaints.append(text))
    tab.on("request", lambda r: seen.requests.append(r.url))

    def leave():
        "What the page before says from here on is not heard."
        nonlocal seen
        seen = SimpleNamespace(complaints=[], requests=[])
        tab.goto("about:blank")
        tab.set_viewport_size(DESK)
        seen = SimpleNamespace(complaints=[], requests=[])
        return seen

    @lru_cache(None)
    def look(page):
        seen = leave()
        seen.status = tab.goto(f"{address}{FAR}/{page}").status
        wait_for_maths(tab)
        seen.equations = tab.locator(".arithmatex").count()
        seen.typeset = tab.locator(".arithmatex > mjx-container").count()
        seen.errors = tab.locator("mjx-merror, [data-mjx-error]").count()
        seen.raw = tab.evaluate(RAW_MARKUP)
        tab.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        seen.cut_off = tab.evaluate(CUT_OFF)
        tab.set_viewport_size(PHONE)
        twice = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        tab.evaluate(twice)
        seen.phone_width = tab.evaluate("document.scrollingElement.scrollWidth")
        seen.sticking_out = tab.evaluate(STICKING_OUT)
        return seen

    yield look
    tab.close()


@pytest.fixture
def tab(reader):
    "A fresh tab."
    opened = reader.new_page()
    yield opened
    opened.close()


@each_page
def test_opens_quietly(visit, address, page):
    "The page loads, the console stays empty, and no request leaves the site, wherever it lies."
    seen = visit(page)
    assert seen.status == 200
    assert not seen.complaints, f"docs/{page} complains in the console: {seen.complaints}"
    inside = (f"{address}{FAR}/", "data:", "blob:")
    outside = [url for url in seen.requests if not url.startswith(inside)]
    assert not outside, f"docs/{page} asks the network for {outside}"
    assert f"{address}{FAR}/search.json" in seen.requests


@each_page
def test_equations_are_typeset(visit, page):
    "Every equation is typeset without error, and no TeX or Markdown is left as text."
    seen = visit(page)
    count = f"{seen.typeset} of {seen.equations} equations are typeset"
    assert seen.typeset == seen.equations, f"docs/{page}: {count}."
    assert seen.errors == 0, f"docs/{page}: MathJax reports {seen.errors} errors."
    assert not seen.raw, f"docs/{page} shows markup as text: {seen.raw}"


@each_page
def test_fits_a_phone(visit, page):
    "At 390 pixels the page does not scroll sideways; wide things scroll in their own box."
    seen = visit(page)
    width = seen.phone_width
    assert width <= PHONE["width"], f"docs/{page} is {width} pixels wide on a phone."
    assert not seen.sticking_out, f"docs/{page}: cut off on a phone: {seen.sticking_out[:5]}"


@each_page
def test_code_is_not_cut_off(visit, page):
    "At 1280 pixels a line of 100 signs needs no scrolling."
    cut = visit(page).cut_off
    assert not cut, f"docs/{page} cuts code off: {cut[:3]}"


def test_site_has_equations(visit):
    "The counts above are not all zero."
    assert sum(visit(page).typeset for page in READING_ORDER) > 20


@pytest.mark.parametrize("words, pages", SEARCHES.items(), ids=SEARCHES)
def test_search_finds(tab, address, words, pages):
    "Typing a word shows results, and the first one leads to a page that answers."
    complaints = []
    listen(tab, complaints.append)
    tab.goto(f"{address}/index.html")
    tab.get_by_role("button", name="Search").click()
    tab.keyboard.type(words)
    results = tab.get_by_role("option")
    results.first.wait_for()
    title = results.first.inner_text().partition("\n")[0]
    assert not re.search(r"[#¶\\$]", title), f"signs of markup in {title}"
    results.first.click()
    tab.wait_for_url("**/*h=*")
    found = urlparse(tab.url).path.lstrip("/")
    assert found.startswith(tuple(pages)), f"{words!r} leads to {found}"
    assert words.lower() in tab.locator("article").inner_text().lower()
    assert not complaints, f"the search complains in the console: {complaints}"


def test_internals_come_later_in_search():
    "They have one entry each, which says so."
    index = json.loads((DOCS / "search.json").read_text(encoding="utf-8"))["items"]
    for nb in [nb for nb in site_pages.notebooks() if site_pages.is_internal(nb)]:
        page = site_pages.page_of(nb)
        found = [item for item in index if item["location"].partition("#")[0] == page]
        assert len(found) == 1 and found[0]["title"].startswith("Internals: ")


def test_picture_in_the_first_screen(tab, address):
    "At 1280 x 800 the landing page shows its picture whole."
    tab.goto(f"{address}/index.html")
    tab.wait_for_function("[...document.images].every(image => image.complete)")
    box = tab.locator("article img").first.bounding_box()
    assert box["y"] + box["height"] <= DESK["height"], f"the picture ends at {box}"


def test_shown_code_stands_open(tab, address):
    "A cell marked `#| shown` is on the page without a fold, its parameters folded below."
    nb, source = next((nb, cell["source"]) for nb in site_pages.notebooks()
                      for cell in site_pages.read_cells(nb)
                      if re.search(r"^#\| *shown", cell["source"], re.M))
    name = re.search(r"^(def|class) (\w+)", source, re.M)[2]
    tab.goto(f"{address}/{site_pages.page_of(nb)}#{name.lower()}")
    code = tab.locator("article > .highlight").filter(has_text=re.compile(rf"(def|class) {name}\b"))
    assert code.is_visible()
    assert tab.locator(f"[id='{name.lower()}']").count() == 1


@pytest.mark.parametrize("base", ["", "/some/base"])
def test_links_of_the_404_page(tab, address, base):
    "Wherever the site lies and however deep the missing page, the links lead back."
    tab.goto(f"{address}{base}/no/such/page.html")
    tab.wait_for_selector("html[data-ready]")
    links = tab.locator("a")
    assert links.count() > 1
    for i in range(links.count()):
        link = links.nth(i).evaluate("a => a.href")
        assert link.startswith(f"{address}{base}/") and tab.request.get(link).ok, link


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
    pages = {page: (DOCS / page).read_text(encoding="utf-8") for page in READING_ORDER}
    page = next(page for page, text in pages.items() if 'class="source"' in text)
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


def test_plain_words_are_no_links():
    "`first`, a campaign, and `ours`, a contestant, are also functions somewhere inside."
    for page, word in (("experiments/cost", "first"), ("experiments/timing", "ours")):
        text = (DOCS / f"{page}.html").read_text(encoding="utf-8")
        assert f"<code>{word}</code>" in text and f"><code>{word}</code></a>" not in text
