"""Turns the Markdown of a notebook cell (Jupyter, Quarto) into that of the site generator.

Code and maths are set aside first, so that nothing below can mistake a `$`, `|` or `_` for markup.
"""
import re
import unicodedata
from textwrap import dedent

CODE = (r"^ *(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^ *(?P=fence) *$"
        r"|(?P<ticks>`+)(?!`)(?:(?!\n\n).)+?(?<!`)(?P=ticks)(?!`)")
MATHS = (r"\$\$(?P<display>.+?)\$\$"
         r"|(?<![\\$])\$(?P<inline>(?! )[^$\n]*(?:\n[^$\n]+)*?(?<! ))\$(?![\d$])(?P<stop>[.,;:)]?)")
KEPT, KEPT_CODE = (re.compile(pattern, re.M | re.S) for pattern in (f"{CODE}|{MATHS}", CODE))
MARK = "\ue000{}\ue001"  # stands in the text for a piece that was set aside
MARKED = MARK.format(r"(\d+)")
ITEM = re.compile(r" *([-*+]|\d+[.)]) +(?=\S)")
KINDS = {"note": "note", "tip": "tip", "warning": "warning", "important": "info",
         "caution": "danger"}
SIGNS = dict(le="≤", leq="≤", ge="≥", geq="≥", times="×", cdot="·", infty="∞", int="∫", sum="Σ",
             pm="±", to="→", mapsto="↦", approx="≈", neq="≠", partial="∂", nabla="∇", ldots="…",
             quad=" ", mid="|", varepsilon="ε", ell="ℓ")
SIGNS["in"] = "∈"
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def tex(source, left, right):
    "An equation as an element for MathJax; every sign is an entity, out of reach of Markdown."
    source = " ".join((left + re.sub(r"(?<!\\)%.*", "", source) + right).split())
    spelled = re.sub(r"[^\w ]", lambda m: f"&#{ord(m[0])};", source)
    return f"<span class=arithmatex>{spelled.replace('_', '&#95;')}</span>"


def set_aside(text, pattern=KEPT):
    "Replace code and equations by marks: returns the text and the pieces."
    pieces = []

    def keep(m):
        found = m.groupdict()
        if found.get("display"):
            piece = tex(found["display"], r"\[", r"\]")
        elif found.get("inline"):
            piece = tex(found["inline"], r"\(", r"\)")
            if found["stop"]:
                piece = f"<span class=unbroken>{piece}{found['stop']}</span>"
        else:
            piece = dedent(m[0])
        pieces.append(piece)
        margin = re.match(" *", m[0])[0] if found["fence"] else ""
        return margin + MARK.format(len(pieces) - 1)

    return pattern.sub(keep, text), pieces


def put_back(text, pieces):
    "Undo `set_aside`; every line of a block takes over the margin of its mark."
    def block(m):
        return "\n".join((m[1] + line).rstrip() for line in pieces[int(m[2])].split("\n"))

    text = re.sub(f"^([ >]*){MARKED}$", block, text, flags=re.M)
    return re.sub(MARKED, lambda m: pieces[int(m[1])], text)


def admonition(kind, title, folded, body):
    "A callout in the syntax of the site generator."
    title = title.replace('"', "&quot;")
    head = f'{"???" if folded else "!!!"} {KINDS[kind]} "{title}"'
    return [head, "", *(f"    {line}".rstrip() for line in body), ""]


def alert(kind, title, folded, body):
    "A callout in the syntax of GitHub."
    head = [f"> [!{kind.upper()}]", f"> **{title}**", ">"]
    return [*head, *(f"> {line}".rstrip() for line in body), ""]


def parse_callout(head, body):
    "Kind, title, whether folded, and lines of a `::: {.callout-note}` block."
    kind = re.search(r"\.callout-(\w+)", head)
    if not kind or kind[1] not in KINDS:
        known = ", ".join(f".callout-{name}" for name in KINDS)
        raise ValueError(f"the block ::: {{{head}}} is not known: use {known}")
    given = re.search(r'title="(.*?)"', head)
    body = "\n".join(body).strip("\n").split("\n")
    title = given[1] if given else kind[1].capitalize()
    if not given and (heading := re.match(r"#+ +(.+)", body[0])):
        title, body = heading[1].strip(), "\n".join(body[1:]).strip("\n").split("\n")
    return kind[1], title, 'collapse="true"' in head, body


def callouts(text, write):
    "Rewrite Quarto's callouts, also nested ones, with `write` (`admonition` or `alert`)."
    heads, blocks = [], [[]]
    for line in text.split("\n"):
        if opening := re.match(r":{3,} *\{(.+)\}", line):
            heads.append(opening[1])
            blocks.append([])
        elif re.match(r":{3,} *$", line) and heads:
            body = blocks.pop()
            blocks[-1] += ["", *write(*parse_callout(heads.pop(), body))]
        else:
            blocks[-1].append(line)
    if heads:
        raise ValueError(f"the block ::: {{{heads[-1]}}} is not closed by :::")
    return "\n".join(blocks[0])


def four_space_lists(text):
    "Indent lists by four spaces a level, after a blank line, as Python-Markdown wants."
    out, columns = [], []  # columns: where the text of each open list item starts
    for line in text.split("\n"):
        if not line.strip():
            out.append("")
            continue
        width, item, in_list = len(line) - len(line.lstrip()), ITEM.match(line), bool(columns)
        after_text = bool(out and out[-1])
        if item and after_text and not in_list:
            if item[1][0] in "023456789":
                item = None  # a sentence that happens to go on with a number
            else:
                out.append("")
        if item or not after_text or line.startswith(("#", ":::")):
            columns = [column for column in columns if column <= width]
        start = item.end() if item else min(width, columns[-1] if columns else 0)
        marker = item[1].replace(")", ".") + " " if item else ""
        out.append("    " * len(columns) + marker + line[start:].rstrip())
        columns += [start] if item else []
    return "\n".join(out)


def tables_apart(text):
    "Put a blank line between a paragraph and the table that follows it."
    return re.sub(r"^([^|\n]*\S[^|\n]*)\n(?=.*\|.*\n(?=.*\|)[ :|-]+$)", r"\1\n\n", text, flags=re.M)


def links(text, address):
    "Pass the target of every Markdown link through `address`."
    return re.sub(r"(\]\()([^)\s]+)(?=[)\s])", lambda m: m[1] + address(m[2]), text)


def for_site(text, address):
    "The text of a notebook cell as Markdown for the site."
    text, pieces = set_aside(text)
    text = tables_apart(four_space_lists(links(text, address))).replace(r"\$", "$")
    return put_back(callouts(text, admonition), pieces)


def for_readme(text, address):
    "The text of a notebook cell as GitHub reads it: maths stays as it is."
    text, pieces = set_aside(text, KEPT_CODE)
    return put_back(callouts(links(text, address), alert), pieces)


def tex_sign(m):
    "A command of TeX as the sign it stands for: a Greek letter, an operator, or nothing."
    name = m[1]
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    letter = name.upper().replace("LAMBDA", "LAMDA")  # as Unicode spells it
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {letter}")
    except KeyError:
        return SIGNS.get(name, "")


def readable_tex(source):
    "An equation as plain text, where MathJax does not reach."
    source = re.sub(r"\\[tdc]?frac\{(.*?)\}\{(.*?)\}", r"(\1)/(\2)", source)
    source = re.sub(r"\\[,;:! ~]|~", " ", source).replace(r"\{", "(").replace(r"\}", ")")
    source = re.sub(r"\\([a-zA-Z]+)\*?", tex_sign, source)
    source = re.sub(r"\^\{?(\d+)\}?", lambda m: m[1].translate(RAISED), source)
    source = re.sub(r"_\{?(\d+)\}?", lambda m: m[1].translate(LOWERED), source)
    return " ".join(re.sub(r"[{}\\&]|[_^](?=\{)", "", source).split())


def plain(text):
    "Text without markup, for titles and descriptions."
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)
    text = re.sub(r"(?<![\\$])\$([^$]+)\$", lambda m: readable_tex(m[1]), text)
    text = re.sub(r"(?<!\w)(\*\*?)(\S|\S.*?\S)\1(?!\w)", r"\2", text)
    return text.replace("`", "").strip()
