"""Where things lie below the project's folder: one function for each path."""

from pathlib import Path

SESSION_INDEX = "session.json"


def project_root(start: Path | None = None) -> Path:
    """The nearest folder, from `start` (default: here) upwards, that holds workflow/Snakefile."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "workflow" / "Snakefile").is_file():
            return folder
    raise FileNotFoundError(f"no workflow/Snakefile in {here} or above it: run this inside a benchstudy project")


def family_raw(root: Path, study: str, target: str, family: str) -> Path:
    return root / "data" / "raw" / study / target / family


def session_index(root: Path, study: str, target: str, family: str) -> Path:
    """The list of all trials of a family on a target, derived from them."""
    return family_raw(root, study, target, family) / SESSION_INDEX


def published(root: Path) -> Path:
    return root / "data" / "published"


def comparisons(root: Path) -> Path:
    """Pages of two studies."""
    return root / "reports" / "comparisons"


def local_state(root: Path) -> Path:
    """Keys, sockets and logs of this machine only; git ignores it."""
    return root / ".benchstudy"


def declared_study(root: Path) -> Path:
    """The study of the running command as it was declared, for jobs that Snakemake starts as plain commands."""
    return local_state(root) / "declared-study.json"


def vega_bundle(root: Path, version: str) -> Path:
    """The script that draws figures in pages, which takes seconds to make."""
    return local_state(root) / "cache" / f"vega-{version}.js"


def loopback_state(root: Path) -> Path:
    return local_state(root) / "loopback"
