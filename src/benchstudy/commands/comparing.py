"""`benchstudy compare`: one page about two studies, made from the tables of their reports."""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchstudy.model import paths, registry
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.names import check_name
from benchstudy.model.output import add_json, print_json
from benchstudy.model.studyfile import load_study

_NOTEBOOK = "two_studies"


def add_command(commands: Any) -> None:
    """Adds it to argparse's subcommands."""
    compare = commands.add_parser(
        "compare", help="compare two studies: ratios, and what differs; a verdict only within the same session"
    )
    compare.add_argument("base", type=Path, metavar="BASE", help="name or file of the study to divide by")
    compare.add_argument("other", type=Path, metavar="OTHER", help="name or file of the other study")
    compare.add_argument(
        "--metric", action="append", default=[], metavar="METRIC",
        help="compare this metric, such as latency_p99; may be repeated (default: the primary metrics of each family)",
    )  # fmt: skip
    add_json(compare)
    compare.set_defaults(command=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    root = paths.project_root()
    base, other = (_name(given) for given in (arguments.base, arguments.other))
    page, text, found = compare_studies(root, base, other, arguments.metric)
    if arguments.json:
        print_json({"base": base, "other": other, "page": str(page.relative_to(root)), "families": found})
        return 0
    print(*text, sep="\n")
    print(f"page: {page.relative_to(root)}")
    return 0


def _name(given: Path) -> str:
    """The name of a study, given by name or by file."""
    if given.suffix in (".yaml", ".yml"):
        return load_study(given).study
    try:
        return check_name(str(given))
    except ValueError as error:
        raise BenchstudyError(f"{given}: neither the file nor the name of a study: {error}") from error


@contextmanager
def _anew(folder: Path) -> Iterator[None]:
    """Begin without the folder: it may have files of metrics that are no longer compared. An error puts it back."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as kept:
        if folder.exists():
            folder.rename(Path(kept, folder.name))
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if Path(kept, folder.name).exists():
                Path(kept, folder.name).rename(folder)
            raise


def compare_studies(
    root: Path, base: str, other: str, metrics: list[str]
) -> tuple[Path, list[str], list[dict[str, Any]]]:
    """Make the page `reports/comparisons/<base>--<other>.html`. Return it, its ratios as lines, and as plain data.

    Raises BenchstudyError when a study has no tables, or when the two have nothing in common.
    """
    if base == other:
        raise BenchstudyError(f"{base}: cannot compare a study with itself; its own pages compare its cases")
    # Imported here because these imports take longer than other commands take to run.
    from benchstudy.jobs.notebooks import execute
    from benchstudy.report.comparisons.two_studies import TwoStudies, facts, lines
    from benchstudy.report.htmlpages import render_notebook

    name = f"{base}--{other}"
    exports = paths.comparisons(root) / name
    given: dict[str, Any] = {
        "base": base,
        "other": other,
        "tidy": "data/tidy",
        "output": str(exports.relative_to(root)),
        "metrics": metrics,
    }
    pairs = TwoStudies(**given).pairs
    text = list(lines(pairs))  # first, so that missing tables are reported before a notebook runs
    executed = exports.with_suffix(".ipynb")
    trace = root / "logs" / "compare" / f"{name}.ipynb"
    with _anew(exports):
        execute(registry.notebook(_NOTEBOOK, root), trace=trace, output=executed, parameters=given)
    page = exports.with_name(f"{name}.html")
    up = [(f"Study {study}", f"../{study}/index.html") for study in (base, other)]
    render_notebook(executed, page, title=f"{other} against {base}", up=up)
    return page, text, [facts(pair) for pair in pairs]
