"""What one trial of fio or of the small-files test left. Pure."""

from collections.abc import Mapping
from pathlib import Path

from benchstudy.families.fio.fio_json import parse_fio_json
from benchstudy.families.fio.fio_result import observe
from benchstudy.families.fio.fio_text import parse_fio_text
from benchstudy.families.fio.small_files import parse_no_fork, parse_shell_loop
from benchstudy.families.shared.files import read_json, read_text
from benchstudy.model.family import Parsed, ParseError

PART = "part.json"  # of an imported run: which of its groups the trial is


def parse_trial(levels: Mapping[str, str], files: Path) -> Parsed:
    """What fio or the small-files test left in one trial. Raises ParseError."""
    if levels["test"] == "small-files":
        stdout = read_text(files / "stdout")
        if levels["job"] == "no-fork":
            return parse_no_fork(stdout)
        return parse_shell_loop(stdout, read_text(files / "stderr"))
    for name, parser in (
        ("files/fio.json", parse_fio_json),
        ("fio.json", parse_fio_json),
        ("fio.txt", parse_fio_text),
    ):
        if (files / name).is_file():
            run = parser(read_text(files / name))
            return observe(run.only(read_json(files / PART)["group"]) if (files / PART).is_file() else run)
    raise ParseError("fio left no output: neither fio.json nor fio.txt is there")
