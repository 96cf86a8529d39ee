"""A content security policy for every page: what is not shipped with the site is not loaded.

Scripts run if they are files of the site or stand in the page as it was built, by their hash.
MathJax and the theme set styles as they go, so styles may stand in the page.
"""
import base64
import hashlib
import re

INLINE = re.compile(r"<script(?![^>]*\b(?:src|type)=)[^>]*>(.*?)</script>", re.S)
CHARSET = re.compile(r'<meta charset="?utf-8"?>', re.I)


def policy(page):
    "The policy for the text of a page."
    hashes = [hashlib.sha256(script.encode()).digest() for script in INLINE.findall(page)]
    known = sorted({f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes})
    rules = {"default-src": "'none'", "script-src": " ".join(["'self'", *known]),
             "style-src": "'self' 'unsafe-inline'", "img-src": "'self' data:",
             "font-src": "'self' data:", "connect-src": "'self'", "worker-src": "'self' blob:",
             "manifest-src": "'self'", "base-uri": "'none'", "form-action": "'none'"}
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def with_policy(page):
    "The page with its policy, before anything that it governs."
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(page)}">'
    if not CHARSET.search(page): raise ValueError("A page without <meta charset>: add one.")
    return CHARSET.sub(lambda found: found[0] + meta, page, count=1)
