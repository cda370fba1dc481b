"""A study that measures for as long as a test wants, and hardly loads the machine meanwhile."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conftest import Project

FAMILY = "fio"


def calm(folder: Path, **changes: Any) -> dict[str, Any]:
    """The family's block: two cases whose trials take a second and make ten reads."""
    folder.mkdir(exist_ok=True)
    job = {"rw": "randread", "engine": "psync", "direct": False, "extra": {"rate_iops": 10}}
    block = {
        "directories": [{"name": "disk", "path": str(folder)}],
        "size": "64KiB",
        "runtime": "1s",
        "page_jobs": [],
        "small_files": [],
        "jobs": [{"name": name, **job} for name in ("one", "two")],
    }
    return {FAMILY: {**block, **changes}}


def asleep(names: Iterable[str] = ("one", "two")) -> dict[str, Any]:
    """Cases whose trials last a second and read nothing, of the family whose page costs least."""
    return {"command": {"commands": [{"name": n, "argv": ["sleep", "1"], "warm_up": 0, "repeat": 1} for n in names]}}


def sealed(project: Project, study: Mapping[str, Any], target: str) -> set[Path]:
    """Folders of its complete trials."""
    raw = project.root / "data" / "raw" / study["study"] / target
    return {record.parent for record in raw.glob("*/*=*/[!.]*/trial.json")}
