"""Existing outputs of fio, recognised."""

import re
from pathlib import Path

from benchstudy.families.fio.fio_json import parse_fio_json
from benchstudy.families.fio.fio_result import FioRun, observe
from benchstudy.families.fio.fio_text import parse_fio_text
from benchstudy.model.family import Imported

_LARGEST_IMPORT = 256 << 20


def recognise(path: Path) -> Imported | None:
    """Recognises fio's JSON and plain text. Raises ParseError for one that is fio's and damaged."""
    if path.stat().st_size > _LARGEST_IMPORT:
        return None
    text = path.read_bytes().decode(errors="replace")
    if re.search(r'"fio version"\s*:', text):
        run, file_name = parse_fio_json(text), "fio.json"
        notes: tuple[str, ...] = ()
    elif re.search(r"^\s*fio-\d+\.\d+\S*\s*$", text, re.MULTILINE) and "rw=" in text:
        run, file_name = parse_fio_text(text), "fio.txt"
        notes = ("plain text: bandwidth and latencies were rounded by fio to three or four digits",)
    else:
        return None
    observe(run)
    levels = {"directory": "imported", "test": "fio", "job": _as_name(run)}
    return Imported(levels, file_name, "fio", run.version.removeprefix("fio-"), notes)


def _as_name(run: FioRun) -> str:
    """fio's job name as a level; what a folder name must not hold becomes a dash."""
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._+-]", "-", run.name)).lstrip("._+-")[:64]
    return name or "unnamed"
