"""The code that each kind of job runs, as its rule's input: after an edit there the job is done again, and no other.

A job's code is its script and whatever that imports. What families bring is imported by name, which no reader of
imports sees, so that it is named here. How a job starts, logs and fails is nobody's input: it decides no result.
"""

from collections.abc import Iterable
from pathlib import Path

from benchstudy.model import paths, registry, sources
from benchstudy.report.study.studypages import STUDY_PAGES

_SCRIPTS = "workflow/scripts"


def code_of_tables(family: str) -> list[str]:
    """Of tidy_family: the family's parser, and no other family's."""
    return _code("tidy_family", ["benchstudy.jobs.tidy", *_parts("family", "parse", of=[family])])


def code_of_confirmation() -> list[str]:
    """Of confirm_sessions: what compares raw files."""
    return _code("confirm_sessions", ["benchstudy.measuring.confirmed"])


def code_of_page(page: str, notebook: Path, families: Iterable[str]) -> list[str]:
    """Of make_page: what the notebook of the page imports, what executes it, and what renders it.

    `families`: the study's, all of which a page of the study as a whole shows.
    """
    shown = families if page in STUDY_PAGES else [page]
    published = _parts("page.published", of=registry.names()) if page in STUDY_PAGES else []
    made = ["benchstudy.jobs.notebooks", "benchstudy.report.htmlpages", *sources.imported_by_notebook(notebook)]
    return _code("make_page", [*made, *_parts("family", of=shown), *published, *_lints()])


def code_of_index(families: Iterable[str]) -> list[str]:
    """Of build_index. `families`: the study's."""
    return _code("build_index", ["benchstudy.report.overview.indexpages", *_parts("family", of=families), *_lints()])


def code_of_crate() -> list[str]:
    """Of build_crate: a crate holds the code itself, so all of it counts."""
    from benchstudy.provenance.contents import software  # here: only this job needs it

    return list(map(str, software(Path()).values()))


def _lints() -> list[str]:
    """Every family's rules: a finding may be of any figure."""
    return _parts("lints", of=registry.names())


def _parts(*modules: str, of: Iterable[str]) -> list[str]:
    return [f"{registry.packages()[family]}.{module}" for family in of for module in modules]


def _code(rule: str, roots: Iterable[str]) -> list[str]:
    """Files, as paths from the project's folder where they lie in it."""
    here, found = Path.cwd(), sources.files(sources.closure(roots))
    script = paths.places(Path(), f"{_SCRIPTS}/{rule}.py")
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in (*script, *found)]
