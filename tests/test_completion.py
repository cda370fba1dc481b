"""Completion as in a shell: bash reads the output of `benchstudy completion`, and completes."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchstudy.commands.cli import command_parser, main
from benchstudy.commands.completion import parsers

# What bash itself does after the tab key: it calls what `complete` named, and shows COMPREPLY.
_TAB = r"""
eval "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
function=$(complete -p benchstudy | sed 's/.*-F \([^ ]*\).*/\1/')
compopt() { :; }
"$function" benchstudy "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "bash"]) == 0
    return capsys.readouterr().out


def completed(script: str, folder: Path, *words: str) -> set[str]:
    """What the tab key completes after these words, in a folder."""
    argv = ["bash", "--norc", "-c", _TAB, "bash", script, "benchstudy", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return {line.strip() for line in done.stdout.splitlines() if line.strip()}


def test_bash_completes_each_command(script, tmp_path):
    assert completed(script, tmp_path, "pl") == {"plan"}
    assert parsers(command_parser()).keys() <= completed(script, tmp_path, "")


def test_the_help_of_each_command_begins_with_what_it_does():
    for name, parser in parsers(command_parser()).items():
        assert re.search(r"\n\n[A-Z][^\n]{15}", parser.format_help()), name


def test_bash_completes_files_and_options(script, tmp_path):
    (tmp_path / "my-study.yaml").touch()
    (tmp_path / "other.txt").touch()
    assert completed(script, tmp_path, "plan", "my-") == {"my-study.yaml"}
    assert completed(script, tmp_path, "compare", "my-") == {"my-study.yaml"}
    assert completed(script, tmp_path, "plan", "--js") == {"--json"}
    assert completed(script, tmp_path, "completion", "z") == {"zsh"}


def test_zsh_reads_its_script(capsys):
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh here")
    assert main(["completion", "zsh"]) == 0
    made = capsys.readouterr().out
    subprocess.run(["zsh", "-f", "-n"], input=made, text=True, check=True, timeout=30)
