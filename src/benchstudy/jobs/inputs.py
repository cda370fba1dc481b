"""The code of each kind of job, as input of its rule: an edit runs exactly the jobs again that use the edited code.

A job's code is its script and everything that the script imports. Modules of families are imported by name, which an
analysis of imports cannot see, so they are named here. How a job starts, logs and fails decides no result, so it is no
input.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from benchstudy.jobs.notebooks import kernel_of
from benchstudy.model import paths, registry, sources
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.files import sha256_of
from benchstudy.model.study import Study
from benchstudy.report.study.studypages import STUDY_PAGES

_SCRIPTS = "workflow/scripts"


def code_of_tables(family: str) -> list[str]:
    """The code of tidy_family: with the parser of this family only."""
    return _code("tidy_family", ["benchstudy.jobs.tidy", *_parts("family", "parse", of=[family])])


def code_of_confirmation() -> list[str]:
    """The code of confirm_sessions, which compares raw files."""
    return _code("confirm_sessions", ["benchstudy.measuring.confirmed"])


def code_of_page(page: str, notebook: Path, families: Iterable[str]) -> list[str]:
    """The code of make_page: what the notebook of the page imports, what executes it, and what renders it.

    `families`: those whose tables the page shows. Raises BenchstudyError if there is no notebook, or if it
    cannot be executed.
    """
    imported = require_notebook(notebook)
    published = _parts("page.published", of=sources.readable_families()) if page in STUDY_PAGES else []
    made = ["benchstudy.jobs.made", "benchstudy.jobs.notebooks", "benchstudy.report.htmlpages"]
    made += imported
    words = _parts("page.wording", of=[page]) if page not in STUDY_PAGES else []  # of comparisons
    return _code("make_page", [*made, *_parts("family", of=families), *words, *published, *_lints()])


def require_notebook(notebook: Path) -> list[str]:
    """Names that the notebook of a page imports. Raises BenchstudyError if there is none or it cannot be executed."""
    if not notebook.is_file():
        raise BenchstudyError(
            f"{notebook}: no such notebook; write it, or `notebook.ipynb` in the package of the family"
        )
    imported = sources.imported_by_notebook(notebook)
    kernel_of(notebook)  # if it has none, nothing need be measured for it
    return imported


def content_of(files: Iterable[str | Path]) -> str:
    """A digest of names and contents, as a parameter of the rules that read these files.

    Snakemake goes by times. It would take a page for new whose notebook was edited while the page was made, or came
    with an older time, as `rsync -a` and `tar` bring it. A missing file counts as empty: Snakemake says that it is
    missing.
    """
    return hashlib.sha256("\n".join(f"{file} {_digest(file)}" for file in files).encode()).hexdigest()


@cache
def _digest(file: str | Path) -> str:
    return sha256_of(Path(file)) if Path(file).is_file() else ""


def declaration_of_page(study: Study, families: Iterable[str]) -> str:
    """A digest of all that a study declares, and of these families' blocks: a page may show any of it.

    Switches of one run are left out. Fields are not listed, so a new one cannot leave pages stale.
    """
    shown = study.model_copy(update={"families": {name: study.families[name] for name in families}})
    content = shown.model_dump_json(exclude={"measure", "beside"}, serialize_as_any=True)
    return hashlib.sha256(content.encode()).hexdigest()


def code_of_index(families: Iterable[str]) -> list[str]:
    """The code of build_index. `families`: the study's."""
    made = ["benchstudy.jobs.made", "benchstudy.report.overview.indexpages"]
    return _code("build_index", [*made, *_parts("family", of=families), *_lints()])


def code_of_list() -> list[str]:
    """The code of list_studies."""
    return _code("list_studies", ["benchstudy.jobs.made", "benchstudy.report.overview.indexpages"])


@cache
def code_of_crate() -> list[str]:
    """The code of build_crate: all of it, because a crate holds the code itself."""
    from benchstudy.provenance.contents import software  # only this job needs it

    return list(map(str, software(Path()).values()))


def _lints() -> list[str]:
    """The rules of every family, because a finding may be about any figure."""
    return _parts("lints", of=sources.readable_families())


def _parts(*modules: str, of: Iterable[str]) -> list[str]:
    return [f"{registry.packages()[family]}.{module}" for family in of for module in modules]


def _code(rule: str, roots: Iterable[str]) -> list[str]:
    """Files, as paths relative to the project's folder if they lie in it."""
    return [*_files(rule, frozenset(roots))]


@cache
def _files(rule: str, roots: frozenset[str]) -> list[str]:
    here, found = Path.cwd(), sources.files(sources.closure(roots))
    script = paths.places(Path(), f"{_SCRIPTS}/{rule}.py")
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in (*script, *found)]
