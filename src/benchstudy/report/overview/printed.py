"""A study's pages as one document for paper, with open folds, numbered parts, contents and running heads."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from markupsafe import Markup

from benchstudy.report.pagetemplates import page_style, render, template_text

_MAIN = re.compile(r'<main id="content">(.*)</main>', re.DOTALL)
_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
_KICKER = re.compile(r'<p class="kicker">.*?</p>', re.DOTALL)
_TITLE = re.compile(r"<h1>(.*?)</h1>", re.DOTALL)
_HEADING = re.compile(r'<h2 id="([^"]*)">(.*?)</h2>', re.DOTALL)
_NUMBER = re.compile(r'(<b class="number">(?:Figure|Table)) (\d+)\.')
_LINK = re.compile(r'<a\b([^>]*)\shref="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
_TABLE = re.compile(
    r"<table(?: class=\"([^\"]*)\")?>(?=(?:<caption>.*?</caption>)?\s*<thead><tr>(.*?)</tr>)", re.DOTALL
)
_TO_A_TRIAL = re.compile(r'<a\b[^>]*\shref="#p\d+-trial-[^"]*"[^>]*>(.*?)</a>', re.DOTALL)
_NO_TRIALS = Markup("table.trials { display: none }")
_MANY_COLUMNS = 8


@dataclass(frozen=True)
class Part:
    """A page as a part of the document. `headings` are pairs (id in the document, text)."""

    number: int
    title: str
    inner: Markup
    headings: Sequence[tuple[str, str]] = field(default=())

    @property
    def anchor(self) -> str:
        """The id of the part in the document."""
        return f"part-{self.number}"

    @property
    def style(self) -> Markup:
        """CSS that prints the title above each page of the part.

        The title is escaped, so that nothing in it can end the string or the element.
        """
        text = "".join(c if c.isalnum() or c == " " else f"\\{ord(c):x} " for c in self.title)
        head = f'@top-left {{ content: "{text}"; font: 8pt sans-serif; color: #5b6470; }}'
        return Markup(f"@page {self.anchor} {{ {head} }} #{self.anchor} {{ page: {self.anchor}; }}")


def document(
    folder: Path, pages: Sequence[str], title: str, about: str, numbers: Mapping[str, int], *, trials: bool = True
) -> str:
    """One HTML document of the index and the `pages` in the study's `folder` of reports.

    `numbers` maps each anchor to its page number, for the contents; it is empty while the numbers are unknown.
    Without `trials` each case has its counts and commands, but no list of its trials.
    """
    names = ["index", *(page for page in pages if (folder / f"{page}.html").is_file())]
    found = [_part(number, name, folder, names) for number, name in enumerate(names, start=1)]
    # No part repeats the title of the study.
    parts = [replace(part, title=part.title.removesuffix(f" – {title}")) for part in found]
    if not trials:
        parts = [replace(part, inner=Markup(_TO_A_TRIAL.sub(r"\1", part.inner))) for part in parts]
    styles = [page_style(), Markup(template_text("print.css")), *(part.style for part in parts)]
    style = Markup("\n").join(styles if trials else [*styles, _NO_TRIALS])
    kicker = _KICKER.search(parts[0].inner)  # name, authors, date and licence of the study
    front = {"title": title, "about": about, "kicker": Markup(kicker[0] if kicker else "")}
    return render("print.html.j2", parts=parts, style=style, numbers=numbers, **front)


def _part(number: int, name: str, folder: Path, names: Sequence[str]) -> Part:
    text = (folder / f"{name}.html").read_text(encoding="utf-8")
    main = _MAIN.search(_SCRIPT.sub("", text))
    title = _TITLE.search(text)
    assert main and title, "every page has its content and a title"
    own = f"p{number}-"
    inner = re.sub(r'(\sid=")', rf"\g<1>{own}", main[1])
    inner = re.sub(r"(url\(#)", rf"\g<1>{own}", inner)
    inner = _LINK.sub(lambda match: _linked(match, number, names), inner)
    inner = re.sub(r"<details(?![^>]*\sopen)", "<details open", inner)
    inner = _NUMBER.sub(rf"\g<1> {number}.\g<2>.", inner)
    inner = _TABLE.sub(_sized, inner)
    headings = [(id, re.sub("<[^>]+>", "", words).strip()) for id, words in _HEADING.findall(inner)]
    said = "Overview" if name == "index" else html.unescape(title[1])
    return Part(number, said, Markup(inner), headings)


def _linked(match: re.Match[str], number: int, names: Sequence[str]) -> str:
    """A link to a part of the document stays a link within it; a link to a file becomes plain text."""
    before, href, after, text = match.groups()
    path, _, anchor = href.partition("#")
    name = path.removeprefix("./").removesuffix(".html")
    if path and name not in names:
        return text
    part = names.index(name) + 1 if path else number
    target = f"p{part}-{anchor}" if anchor else f"part-{part}"
    return f'<a{before} href="#{target}"{after}>{text}</a>'


def _sized(match: re.Match[str]) -> str:
    columns = match[2].count("<th")
    kinds = " ".join(filter(None, (match[1], "many" if columns > _MANY_COLUMNS else "")))
    return f'<table class="{kinds}">' if kinds else "<table>"


_KIDS = re.compile(rb"/Kids \[([^\]]*)\]")
_OBJECT = re.compile(rb"^(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL | re.MULTILINE)


def pages_of_anchors(pdf: bytes) -> dict[str, int]:
    """Map each named destination of a PDF made by Chromium to its page, counted from 1."""
    objects = {int(number): body for number, body in _OBJECT.findall(pdf)}
    order = {number: place for place, number in enumerate(_leaves(objects), start=1)}
    found = re.findall(rb"/([^\s/\[\]()]+) \[(\d+) 0 R\s*/XYZ", pdf)
    return {_name(name): order[int(page)] for name, page in found if int(page) in order}


def _name(raw: bytes) -> str:
    return re.sub(rb"#([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), raw).decode(errors="replace")


def _leaves(objects: Mapping[int, bytes]) -> list[int]:
    """The pages of the page tree, in order."""
    (root,) = [number for number, body in objects.items() if b"/Type /Pages" in body and b"/Parent" not in body]
    todo, found = [root], []
    while todo:
        number = todo.pop()
        kids = _KIDS.search(objects[number])
        if kids is None:
            found.append(number)
        else:
            todo += [int(kid) for kid in reversed(re.findall(rb"(\d+) 0 R", kids[1]))]
    return found
