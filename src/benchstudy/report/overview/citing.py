"""What a writer takes from a study's first page: its methods in words, and how it is cited. There, and as files."""

from markupsafe import Markup

from benchstudy.report.pagetemplates import render
from benchstudy.report.study.citation import BIBTEX, CFF, citation
from benchstudy.report.study.methods import LATEX, MARKDOWN, Methods, methods
from benchstudy.report.study.studyfacts import StudyFacts

FILES = (MARKDOWN, LATEX, CFF, BIBTEX)


def of_study(facts: StudyFacts) -> Methods:
    """How the study was done, and how it is cited."""
    return methods(facts, citation(facts.study, [family.results for family in facts.families]))


def write(facts: StudyFacts, found: Methods) -> None:
    """`FILES`, into the study's folder of reports."""
    texts = {
        MARKDOWN: found.markdown(),
        LATEX: found.latex(),
        CFF: found.cited.cff(),
        BIBTEX: found.bibliography(),
    }
    for name, text in texts.items():
        (facts.folder / name).write_text(text, encoding="utf-8")


def section(facts: StudyFacts, found: Methods) -> Markup:
    """HTML for the page that the `facts` are seen from."""
    files = [{"name": name, "href": facts.link(facts.folder / name)} for name in FILES]
    references = [reference.text for reference in found.references.values()]
    made = render("citing.html.j2", numbered=found.numbered, references=references, cited=found.cited, files=files)
    return Markup(made)
