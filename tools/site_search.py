"""The search index as a reader needs it: no TeX, no signs of the page, internals after all others.

The search of the site generator knows no weights for pages: it ranks a match in a title before one
in a text, and an early match before a late one. So a page of internals becomes one entry, whose
title says so; its headings and names are found in its text, after those of other pages. The page of
all names becomes one entry too, since each name has a page where it is explained.
"""
import json
import re

from site_pages import API_PAGE, all_pages, is_internal, notebooks, page_of
from site_text import readable_tex

EQUATION = re.compile(r"\\\((.*?)\\\)|\\\[(.*?)\\\]", re.S)
ASIDE = re.compile(r"<p>Run this notebook.*?</p> *", re.S)  # stands on every page


def readable(text):
    "Text without TeX and without the line that stands on every page."
    text = ASIDE.sub("", text)
    return EQUATION.sub(lambda m: readable_tex(m[1] or m[2]), text)


def as_one(items, title="{}"):
    "All entries of a page as one."
    first, text = items[0], " ".join(f"{item['title']} {item['text']}" for item in items[1:])
    return {**first, "title": title.format(first["title"]), "text": f"{first['text']} {text}"}


def readable_index(path):
    "Rewrite the search index at `path`, pages in reading order."
    index = json.loads(path.read_text(encoding="utf-8"))
    pages = {page: [] for page in all_pages()}
    for item in index["items"]:
        item |= {key: readable(item[key]) for key in ("title", "text")}
        pages[item["location"].partition("#")[0]].append(item)
    for page in [page_of(nb) for nb in notebooks() if is_internal(nb)]:
        pages[page] = [as_one(pages[page], "Internals: {}")]
    pages[API_PAGE] = [as_one(pages[API_PAGE])]
    index["items"] = [item for items in pages.values() for item in items]
    path.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
