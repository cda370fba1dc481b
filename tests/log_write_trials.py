"""Trials of log_write that were measured once, and what their raw files say."""

import json
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchstudy.model import registry
from benchstudy.model.family import Parsed

DATA = Path(__file__).parent / "data"
TESSERA = DATA / "tessera"
# Of logbench, where nothing took any time.
NO_TIMES = {"count": 0, "min_s": None, "mean_s": None, "max_s": None, "quantiles": [], "bins": [], "hdr": ""}


def unpack(root: Path) -> Path:
    """Unpack the trials of two old stores: posix and mariadb in an open loop, the hammer, and a search."""
    for name in ("embedded", "endings"):
        with tarfile.open(DATA / "store-b9a61cf" / f"{name}.tar.xz") as archive:
            archive.extractall(root, [one for one in archive if "/log_write/" in one.name])
    return root / "data" / "raw"


def copy_of(stores: Path, pattern: str, folder: Path) -> Path:
    """A copy of the first trial whose case has this pattern, to be changed."""
    shutil.copytree(min(stores.glob(f"*/*/log_write/{pattern}/0001-*")), folder, copy_function=shutil.copyfile)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def change(path: Path, by: Callable[[Any], object]) -> Any:
    """The JSON of a file, after the change, which is written."""
    content = json.loads(path.read_text())
    by(content)
    path.write_text(json.dumps(content))
    return content


def raw(path: Path) -> Any:
    return json.loads(path.read_text())


def parsed(levels: Mapping[str, str], trial: Path) -> tuple[dict[str, float], Parsed]:
    found = registry.get("log_write").parse(levels, trial)
    return {one.metric: one.value for one in found.observations}, found


def samples(trial: Path, begin: float, end: float, folder: str = "samples-local") -> tuple[dict[str, Any], float]:
    """The growth of each counter of the samples between two moments, and the time between the first and the last."""
    _, *lines = map(json.loads, (trial / folder / "stdout").read_text().splitlines())
    inside = [line for line in lines if begin <= line["wall"] <= end]
    first, last = inside[0], inside[-1]
    grown = {
        "host": last["host_cpu_s"] - first["host_cpu_s"],
        **{name: now["cpu_s"] - first["processes"][name]["cpu_s"] for name, now in last["processes"].items()},
        **{name: last["disk"][name] - first["disk"][name] for name in first["disk"]},
    }
    return grown, last["t"] - first["t"]
