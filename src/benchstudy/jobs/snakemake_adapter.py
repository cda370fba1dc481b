"""All that the workflow uses of Snakemake beyond its manual: an upgrade of Snakemake is this file.

tests/test_side_by_side.py says what a release of Snakemake has not got any more.
"""

import re
import sys
import threading
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

# Snakemake has nbformat tell a script's language; below it, a JSON schema library builds a grammar of IRIs that nobody
# here needs, for more than a second at each start. Without this optional part it goes on.
_UNNEEDED = "rfc3987_syntax"


def check_place(workflow: Any) -> None:
    """The first call of the Snakefile. Raises WorkflowError where this workflow could not work as it is asked to."""
    from snakemake.exceptions import WorkflowError

    sys.modules.setdefault(_UNNEEDED, None)  # type: ignore[arg-type]
    if not workflow.modifier.is_main_snakefile() or Path(workflow.basedir) != Path.cwd() / "workflow":
        raise WorkflowError(
            f"{Path.cwd()} is not the folder of this workflow: raw files, reports and locks belong to one project. Run "
            "snakemake in the project's folder, without --directory, and not as a module of another workflow"
        )
    if workflow.is_main_process and "--no-hooks" in sys.argv:
        raise WorkflowError("--no-hooks leaves out what keeps two commands apart: run snakemake without it")


def asked_pages(workflow: Any) -> list[str]:
    """Pages that the command line names as what to make; `--report FILE` is Snakemake's own."""
    given = sys.argv if workflow.is_main_process else []
    pairs = pairwise(given)
    return [word for before, word in pairs if re.fullmatch(r"reports/.+\.html", word) and before != "--report"]


def names_study(workflow: Any) -> bool:
    """Whether the command line names one with --configfile."""
    return bool(workflow.overwrite_configfiles)


def limit_resources(workflow: Any, limits: Mapping[str, int]) -> None:
    """So much of each for all jobs together. Not in the profile: `--resources` replaces its limits as a whole."""
    for name, amount in limits.items():
        workflow.register_resource(name, amount)


def plan_again(workflow: Any, file: str | Path) -> None:
    """Called while jobs are planned: have `file` made whatever its age, as --forcerun does; it stays until then."""
    workflow.dag.forcefiles.add(str(file))


def refuse_to_plan(why: str) -> NoReturn:
    """Called while jobs are planned. Any other exception is printed as a defect of the rule, with a traceback."""
    raise SystemExit(f"Error: {why}")


def say(text: str) -> None:
    """Where Snakemake says what it plans: apart from what `--summary` and the like print."""
    from snakemake.logging import logger

    logger.info(text)


def planned_jobs(workflow: Any) -> list[tuple[str, dict[str, str]]]:
    """Rule and wildcards of each job that is about to run; known when `onstart` is called."""
    return [(job.rule.name, dict(job.wildcards_dict)) for job in workflow.dag.needrun_jobs()]


def end_timers() -> None:
    """Let the command end with its last job.

    A second after each start of a job Snakemake looks whether more may start, and Python waits for these timers.
    """
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()
