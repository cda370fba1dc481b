"""What a person sees of running sessions: lines that stay at the bottom of a terminal, plain lines elsewhere."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from conftest import Project
from sshd_hosts import SshdHost

from benchstudy.measuring.statuslines import fitted
from benchstudy.model import paths

ROWS, COLUMNS = 20, 70
MEASURE = "python workflow/scripts/measure_session.py --study seen --family fio"
# Two sessions at once, as Snakemake runs them, and another writer that prints meanwhile, until Ctrl-C.
SESSIONS = f"{MEASURE} --target near --log 1.log & {MEASURE} --target far --log 2.log &"
# The Ctrl-C may also come while nothing sleeps.
AT_ONCE = f"trap ended=yes INT; {SESSIONS} until [ $ended ] || ! sleep 0.3; do echo chatter; done; wait"
STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


@pytest.fixture
def measuring(project: Project, tmp_path: Path):
    """A project whose declared study has a session on each of two hosts."""
    with (
        SshdHost(tmp_path / "near") as near,
        SshdHost(tmp_path / "far") as far,
    ):
        hosts = {"near": near, "far": far}
        (tmp_path / "data").mkdir()
        study = {
            "study": "seen",
            "blocks": 2,
            "hosts": {name: sshd.described(tmp_path / f"{name}-work") for name, sshd in hosts.items()},
            "targets": {name: {"roles": {"sut": name}} for name in hosts},
            "families": {
                "fio": {
                    "directories": [{"name": "disk", "path": str(tmp_path / "data")}],
                    "size": "1MiB",
                    "runtime": "2s",
                    "page_jobs": ["gitlab"],
                    "small_files": [],
                }
            },
        }
        declared = paths.declared_study(project.root, study["study"])
        declared.parent.mkdir(parents=True)
        declared.write_text(json.dumps(study))
        yield project


def on_terminal(project: Project, command: str, interrupt_at: str) -> str:
    """All output of a command in its terminal, where Ctrl-C is pressed as soon as `interrupt_at` matches."""
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=project.root,
        env=project.environment | {"TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    seen, deadline, interrupted = b"", time.monotonic() + 60, False
    while time.monotonic() < deadline:
        try:
            seen += os.read(master, 65536)
        except OSError:  # no process has it open any more
            break
        if not interrupted and re.search(interrupt_at, seen.decode(errors="replace")):
            os.write(master, b"\x03")
            interrupted = True
    os.close(master)
    process.wait(timeout=10)
    assert interrupted, seen.decode()
    return seen.decode()


DRAWN = re.compile("\x1b7((?:\x1b\\[\\d+;1H\x1b\\[2K[^\x1b]*)*)(?:\x1b\\[r)?\x1b8")
TAKEN = re.compile("\n+\x1b\\[\\d+A\x1b7\x1b\\[1;(\\d+)r\x1b8")


def test_two_sessions_on_a_narrow_terminal_until_ctrl_c(measuring: Project):
    written = on_terminal(measuring, AT_ONCE, interrupt_at="(?s)(?=.*near +block 2/2)(?=.*far +block 2/2)").replace(
        "\r\n", "\n"
    )
    lines = [line for drawing in DRAWN.findall(written) for line in re.findall("2K([^\x1b]*)", drawing)]
    assert max(map(len, lines)) < COLUMNS
    text = "\n".join(lines)
    for session in ("fio on near", "fio on far"):
        assert re.search(rf"{session} +block 1/2 +trial 1/2 +direct…itlab +0:0\d elapsed +\? left", text)
        assert re.search(rf"{session} +block 2/2 +trial 2/2 +0:0\d elapsed +0:0\d left", text), text

    # Drawn at the bottom, outside the scrolling region, and released at the end.
    assert {int(row) for row in re.findall(r"\x1b\[(\d+);1H\x1b\[2K.", written)} <= {ROWS - 1, ROWS}
    assert TAKEN.findall(written) and written.rindex("\x1b[r") > written.rindex("\x1b[1;")
    # Other output is there line by line, complete, as if nothing were drawn.
    above = DRAWN.sub("", TAKEN.sub("", written)).removeprefix("^C").splitlines()
    foreign = [line for line in above if line not in ("chatter", "^C", "^Cchatter", "")]
    assert above.count("chatter") > 10
    assert [line for line in foreign if not STAMPED.match(line.removeprefix("^C"))] == []
    assert sum("aborted: interrupted" in line for line in foreign) == 2

    # The same without a terminal: it continues with what is missing, and each line has a time.
    done = measuring.run(*MEASURE.split(), "--target", "near", "--log", "near.log")
    assert done.stdout == "" and "\x1b" not in done.stderr
    assert all(STAMPED.match(line) for line in done.stderr.splitlines())
    assert re.search(r"fio on near: trial 1/1, block 2, directory=disk,\S+: ok, \d\.\d s, 0:00 left", done.stderr)
    assert (measuring.root / "near.log").read_text() == done.stderr


def test_what_finds_no_room_is_cut_and_then_left_out():
    rows = [
        ["fio on a", "backend=disk,op=read,size=100KB,cache=cold", "trial 1/9"],
        ["file_size on b", "connecting", "trial 10/90"],
    ]
    assert fitted([], 100, keep=(2, 0, 1), shrink=1) == []
    assert fitted(rows, 100, keep=(2, 0, 1), shrink=1) == [
        "fio on a        backend=disk,op=read,size=100KB,cache=cold  trial 1/9",
        "file_size on b  connecting                                  trial 10/90",
    ]
    assert fitted(rows, 50, keep=(2, 0, 1), shrink=1)[0] == "fio on a        backend=di…cache=cold  trial 1/9"
    assert fitted(rows, 30, keep=(2, 0, 1), shrink=1) == ["fio on a        trial 1/9", "file_size on b  trial 10/90"]
    for width in range(3, 90):
        assert max(map(len, fitted(rows, width, keep=(2, 0, 1), shrink=1))) <= width
