"""Results follow their code: an edit of any module makes exactly those jobs due that import it.

The imports of each job are found in a second way here: by reading the sources, starting at the job's script.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from conftest import CHECKOUT, Project, copy_project
from planned import Job, following, jobs_in

from benchstudy.jobs import inputs
from benchstudy.model import registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study

SRC = CHECKOUT / "src"
FAMILIES = ("file_size", "fio", "http_concurrency", "load_test", "log_write")
MODULES = {path.relative_to(SRC).as_posix(): None for path in sorted(SRC.rglob("*.py"))}
# How a job starts, logs and fails does not affect its result.
START = ("benchstudy.jobs.job.", "benchstudy.jobs.preloaded.", "benchstudy.jobs.running.")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """All jobs of the embedded study, as Snakemake plans them when nothing is done yet."""
    project: Project = copy_project(tmp_path_factory.mktemp("inputs") / "project")
    return jobs_in(project.snakemake("report", "-n", "-p", "--forceall").stdout)


def test_every_edit_plans_the_jobs_that_import_the_module_and_no_others(jobs):
    imported = {job.name: imported_by(job) for job in jobs}
    assert len(imported) == len(jobs) == 5 + 4 * len(FAMILIES)
    wrong = {}
    for module in MODULES:
        direct = {name for name, modules in imported.items() if module in modules}
        expected = direct | {name for job in jobs if job.name in direct for name in after(jobs, job)}
        planned = following(jobs, f"src/{module}")
        if planned != expected:
            wrong[module] = sorted(planned ^ expected)
    assert wrong == {}


@pytest.mark.parametrize("folder", ["src", "notebooks", "workflow"])
def test_no_edit_plans_a_measurement_or_a_provisioning(jobs, folder):
    held = {"measure_session", "provision_target"}
    assert {job.rule for job in jobs} > held
    files = [path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / folder).rglob("*") if path.is_file()]
    planned = {file: {name.split()[0] for name in following(jobs, file)} for file in files}
    assert any(planned.values())
    assert {file: rules & held for file, rules in planned.items() if rules & held} == {}


def test_no_edit_of_what_sessions_send_from_envs_plans_anything(jobs):
    files = [path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "envs" / "mattermost").glob("*/*.*")]
    assert {Path(file).suffix for file in files} >= {".py", ".sh"}
    assert {file: planned for file in files if (planned := following(jobs, file))} == {}


@pytest.mark.parametrize(
    "module",
    [
        "statistics/change_points.py",
        "statistics/steady.py",
        "model/criteria.py",
        "statistics/comparisons.py",
        "lints/words.py",
    ],
)
def test_an_edit_of_what_only_pages_import_makes_pages_again(jobs, module):
    planned = following(jobs, f"src/benchstudy/{module}")
    assert {f"make_page {family}" for family in FAMILIES} | {"build_index"} <= planned


CLOSURE = """
import json, sys
from benchstudy.model import sources
print(json.dumps([sorted(sources.closure(["benchstudy.model.names"])), "grimp" in sys.modules]))
"""


def test_what_modules_import_is_parsed_once_for_the_same_contents_whatever_their_times(tmp_path):
    shutil.copytree(SRC, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}

    def closure() -> tuple[list[str], bool]:
        done = subprocess.run([sys.executable, "-c", CLOSURE], env=environment, capture_output=True, check=True)
        return tuple(json.loads(done.stdout))

    modules, parsed = closure()
    assert parsed and closure() == (modules, False)
    edited, kept = tmp_path / "src/benchstudy/model/names.py", tmp_path / "src/benchstudy/__pycache__/imports.json"
    before = edited.stat()
    edited.write_text(edited.read_text() + "\nimport benchstudy.model.units\n")
    os.utime(edited, ns=(before.st_atime_ns, before.st_mtime_ns))
    more, parsed = closure()
    assert parsed and set(more) - set(modules) >= {"benchstudy.model.units"}
    for damaged in (kept.read_bytes()[:1000], b"{}", b"[]"):
        kept.write_bytes(damaged)
        assert closure() == (more, True) and closure() == (more, False)


@pytest.mark.parametrize(
    ("file", "rules"),
    [
        ("families/fio/fio_json.py", {"tidy_family fio"}),
        ("families/log_write/samples.py", {"tidy_family log_write"}),
        ("statistics/within_trial.py", {"tidy_family log_write"}),
        ("families/load_test/page/panels.py", {"make_page load_test"}),
        ("report/templates/page.css", {"make_page fio", "build_index", "list_studies"}),
        ("model/questions.py", {"build_index"}),
    ],
)
def test_a_familys_code_is_input_of_its_own_jobs(jobs, file, rules):
    having = {job.name for job in jobs if f"src/benchstudy/{file}" in job.inputs}
    assert rules <= having
    others = {name for name in having if name.startswith("tidy_family")} - rules
    assert not others or not file.startswith("families/"), "no family's tables are made by another's code"


def test_a_family_without_a_notebook_is_told_what_to_write():
    with pytest.raises(BenchstudyError, match=r"mine\.ipynb: no such notebook; write it, or `notebook\.ipynb`"):
        inputs.code_of_page("mine", Path("notebooks/mine.ipynb"), [])


def test_pages_and_tables_are_made_without_hosts_and_sessions(jobs):
    for job in jobs:
        foreign = ("src/benchstudy/hosts/", "src/benchstudy/provisioning/", "src/benchstudy/commands/")
        measuring = {f"src/benchstudy/measuring/{name}.py" for name in ("session", "trial", "state", "instrument")}
        assert not [path for path in job.inputs if path.startswith(foreign) or path in measuring], job.name
        assert not [path for path in job.inputs if path.endswith("/run.py")], job.name
        if job.rule == "tidy_family":
            assert not [path for path in job.inputs if path.startswith("src/benchstudy/report/")], job.name


def after(jobs: list[Job], job: Job) -> set[str]:
    return {name for output in job.outputs for name in following(jobs, output)}


def test_a_page_follows_every_field_of_its_study_but_the_switches_and_other_families():
    study = parse_study(yaml.safe_load((CHECKOUT / "config/config.yaml").read_text()))
    shown = ["file_size"]

    def digest(**edit: object) -> str:
        return inputs.declaration_of_page(study.model_copy(update=edit), shown)

    # A copy checks nothing, so any other value will do.
    fields = [name for name, field in Study.model_fields.items() if not field.exclude and name != "families"]
    edits = {name: digest(**{name: not getattr(study, name)}) for name in fields}
    assert {name for name, edited in edits.items() if edited == digest()} == {"measure", "beside"}
    assert digest(families={name: study.families[name] for name in shown}) == digest()
    own = study.families["file_size"].model_copy(update={"blocks": 77})
    assert digest(families={**study.families, "file_size": own}) != digest()


# --- what jobs import, by the sources ----------------------------------------------------------------------------


def imported_by(job: Job) -> set[str]:
    """Files below src that a job's script imports, and those that families add by name."""
    script = CHECKOUT / "workflow" / "scripts" / f"{job.rule}.py"
    if job.rule in ("report", "measure_session", "provision_target"):
        return set()
    names = [name for name in names_in(ast.parse(script.read_bytes())) if not f"{name}.".startswith(START)]
    shown = [job.of] if job.of in FAMILIES else FAMILIES
    if job.rule not in ("confirm_sessions", "list_studies"):
        names += [f"benchstudy.families.{family}.family" for family in shown]
    if job.rule == "tidy_family":
        names += [f"benchstudy.families.{job.of}.parse"]
    if job.rule in ("make_page", "build_index"):
        names += [f"benchstudy.families.{family}.lints" for family in registry.names()]
    if job.rule == "make_page":
        names += names_in_notebook(CHECKOUT / "notebooks" / f"{job.of}.ipynb")
    if job.rule == "make_page" and job.of in FAMILIES:
        names += [f"benchstudy.families.{job.of}.page.wording"]
    if job.rule == "make_page" and job.of not in FAMILIES:
        names += [f"benchstudy.families.{family}.page.published" for family in FAMILIES]
    found: dict[str, None] = {}
    todo = [file for name in names for file in files_of(name)]
    while todo:
        if (file := todo.pop()) not in found:
            found[file] = None
            todo += imports_of(file)
    return set(found)


def files_of(name: str) -> list[str]:
    """The file of a module and of the packages around it; nothing for a name that is not a module of ours."""
    parts = name.split(".")
    paths = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    own = [file for path in paths for file in (f"{path}.py", f"{path}/__init__.py") if file in MODULES]
    return own if len(own) == len(parts) else []


@cache
def imports_of(module: str) -> set[str]:
    tree = ast.parse((SRC / module).read_bytes())
    names = names_in(tree, module.rpartition("/")[0].replace("/", "."))
    return {file for name in names for file in files_of(name)}


def names_in(node: ast.AST, package: str = "") -> Iterator[str]:
    """Names that may be modules, except those for type checkers only. `package`: the base of relative imports."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level < 2
        module = ".".join(part for part in (package if node.level else "", node.module) if part)
        yield module
        yield from (f"{module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from names_in(child, package)


def names_in_notebook(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_bytes())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [name for source in code for name in names_in(ast.parse(source))]
