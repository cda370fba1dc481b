"""A study's methods in words for a paper, and how to cite it: as a section of its first page, and as files."""

from markupsafe import Markup

from benchstudy.report.pagetemplates import render
from benchstudy.report.study.citation import BIBTEX, CFF, citation
from benchstudy.report.study.methods import LATEX, MARKDOWN, Methods, methods
from benchstudy.report.study.studyfacts import StudyFacts

FILES = (MARKDOWN, LATEX, CFF, BIBTEX)


def of_study(facts: StudyFacts) -> Methods:
    """The methods of the study in words, and its citation."""
    return methods(facts, citation(facts.study, [family.results for family in facts.families]))


def write(facts: StudyFacts, found: Methods) -> None:
    """Write `FILES` into the study's folder of reports."""
    texts = {MARKDOWN: found.markdown(), LATEX: found.latex(), CFF: found.cited.cff(), BIBTEX: found.bibliography()}
    for name, text in texts.items():
        (facts.folder / name).write_text(text, encoding="utf-8")


def section(facts: StudyFacts, found: Methods) -> Markup:
    """The section as HTML, with links relative to the page of the `facts`."""
    files = [{"name": name, "href": facts.link(facts.folder / name)} for name in FILES]
    references = [reference.text for reference in found.references.values()]
    made = render("citing.html.j2", numbered=found.numbered, references=references, cited=found.cited, files=files)
    return Markup(made)
