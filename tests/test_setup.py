"""What a newcomer uses first: the set-up, the Makefile, and the documents."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from benchstudy.commands import cli, init
from benchstudy.commands.completion import parsers
from benchstudy.commands.reference import written_into
from benchstudy.model.studyfile import load_study, parse_study, with_systems

CHECKOUT = Path(__file__).resolve().parents[1]
# The distribution's own, which takes less processor time than many others.
SYSTEMS = Path("/usr/bin/python3")
ABLE = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
TOOLS = ["awk", "cat", "cut", "dirname", "env", "id", "printf", "rm", "sh", "sha256sum"]


def bare_path(folder: Path, *programs: tuple[str, str]) -> str:
    """A PATH with the plain tools of a system, and `programs` (name, shell script) instead of the real ones."""
    folder.mkdir()
    # A real tool and its stand-in never share a name: writing to a link would write to the system's own program.
    for tool in set(TOOLS) - {name for name, _ in programs}:
        (folder / tool).symlink_to(shutil.which(tool))
    for name, script in programs:
        with open(folder / name, "x") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def set_up(copy: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "setup/environment.sh", *arguments],
        cwd=copy,
        env={"PATH": path, "HOME": str(copy), "BENCHSTUDY_PYTHON": "python3"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that the set-up reads."""
    folder = tmp_path / "a copy"
    shutil.copytree(CHECKOUT / "setup", folder / "setup")
    shutil.copytree(CHECKOUT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml", "README.md", "Makefile"):
        shutil.copy(CHECKOUT / name, folder)
    return folder


def test_too_old_a_python_is_named_with_the_way_out(copy, tmp_path):
    path = bare_path(tmp_path / "bin", ("python3", '[ "$1" = --version ] && echo "Python 3.9.2" || exit 1'))
    done = set_up(copy, path)
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed, but this is Python 3.9.2" in done.stderr
    assert not (copy / ".venv").exists()


def test_without_the_right_to_install_it_names_the_packages_and_the_command(copy, tmp_path):
    python = shutil.which("python3")
    path = bare_path(
        tmp_path / "bin",
        ("python3", f'case "$2" in *ensurepip*) exit 1;; esac; exec {python} "$@"'),
        ("id", "echo 1000"),
        ("apt-get", "echo called >> apt-was-called"),
    )
    done = set_up(copy, path)
    assert done.returncode == 1
    version = re.search(r"sudo apt-get install (python3\.\d+-venv.*)", done.stderr)
    assert version, done.stderr
    assert not (copy / "apt-was-called").exists()
    assert not (copy / ".venv").exists()


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_holds_its_own_installer_and_no_registry(name):
    lock = (CHECKOUT / name).read_text()
    assert re.search(r"^uv==\S+ \\\n    --hash=sha256:", lock, re.MULTILINE)
    assert "://" not in lock
    pinned = re.findall(r"^[a-z0-9][^ ]*==", lock, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[a-z0-9][^\n]*\\\n    --hash=sha256:", lock, re.MULTILINE))


def test_the_lock_of_tests_is_that_of_users_and_more():
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9][^ ]*==\S+", (CHECKOUT / name).read_text(), re.MULTILINE))

    for_users, for_tests = pins("requirements.lock"), pins("requirements-dev.lock")
    assert for_users < for_tests
    assert not [pin for pin in for_users if pin.startswith(("pytest", "ruff", "mypy"))]
    for_executors = pins("requirements-executors.lock")
    assert for_executors and for_executors.isdisjoint(for_users), "it is installed beside that of users"
    assert "://" not in (CHECKOUT / "requirements-executors.lock").read_text()


def test_make_help_names_every_target():
    done = subprocess.run(["make", "help"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    [phony] = re.findall(r"^\.PHONY: (.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    for target in set(phony.split()) - {"environment"}:
        assert f"make {target} " in done.stdout


def test_cleaning_removes_what_the_help_says_and_leaves_built_programs(tmp_path):
    state = tmp_path / ".benchstudy"
    for file in (state / "loopback" / "user_key", state / "tools" / "k6", state / "studies" / "x" / "declared.json"):
        file.parent.mkdir(parents=True)
        file.touch()
    subprocess.run(["make", "-f", CHECKOUT / "Makefile", "clean-loopback"], cwd=tmp_path, check=True)
    assert sorted(path.name for path in state.iterdir()) == ["studies", "tools"]


def test_the_studies_in_the_guides_are_valid_ones():
    [example] = _yaml_blocks("own-machines.md")
    study = parse_study(yaml.safe_load(example))
    assert {(plan.target, plan.family_name) for plan in study.sessions()} == {
        (target, family) for target in ("disk-of-db1", "disk-of-db2") for family in ("file_size", "fio")
    }
    others = _yaml_blocks("examples.md")
    assert len(others) >= 3
    for other in others:
        assert parse_study(yaml.safe_load(other)).sessions()


def test_the_readme_is_one_screen_and_tells_the_times_that_were_seen():
    readme = (CHECKOUT / "README.md").read_text()
    assert len(readme.splitlines()) <= 70
    seen = re.search(
        r"^\| `make test` \|.*\| (.*) with programs built, (\d+) with", _document("development.md"), re.MULTILINE
    )
    assert seen and f"{seen[1]} on 2 cores, {seen[2]} with nothing compiled" in readme
    # Its hosts and targets stand for those of the template that `init` takes.
    [part] = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    template = yaml.safe_load((init.templates()["command"]).read_text())
    targets = {plan.target for plan in parse_study(template | yaml.safe_load(part)).sessions()}
    assert targets == {"on-db1", "on-db2"}


def _document(name: str) -> str:
    return (CHECKOUT / "docs" / name).read_text()


def _yaml_blocks(document: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", _document(document), re.DOTALL)


# What a study needs besides the example in a document.
_AROUND = {
    "study": "example",
    "hosts": {name: {"address": name, "service_address": "192.0.2.1"} for name in ("sut", "server", "l1", "l2", "l3")},
    "targets": {"one": {"roles": {"sut": "sut", "load": ["l1", "l2", "l3"]}}},
}
_STORAGE = {
    "file_size": {"backends": [{"name": "local", "kind": "path", "path": "/srv"}], "sizes": ["1MB"]},
    "fio": {
        "directories": [{"name": "local", "path": "/srv"}],
        "jobs": [{"name": "sequential-read", "rw": "read", "bs": "1MiB"}],
    },
}


def test_examples_in_the_documents_are_parts_of_valid_studies():
    http, fio, sizes = (
        yaml.safe_load(_yaml_blocks(f"families/{name}.md")[0]) for name in ("http_concurrency", "fio", "file_size")
    )
    command = yaml.safe_load(_yaml_blocks("families/command.md")[0].replace("…", "{system: postgresql}"))
    several, mounted = map(yaml.safe_load, _yaml_blocks("scale.md"))
    by_clients = http["families"]["http_concurrency"] | several["families"]["http_concurrency"] | {"concurrency": [6]}
    declared, measured, acknowledged = map(yaml.safe_load, _yaml_blocks("lints.md"))
    one = {"targets": {"one": {"roles": {"sut": "sut"}}}}
    for example in (
        {**one, **http},
        fio,
        command,
        mounted,
        {**several, "families": {"http_concurrency": by_clients}},
        {"families": {"file_size": {"backends": sizes, "sizes": ["1MB"]}}},
        *({**lints, "families": _STORAGE} for lints in (declared, measured, acknowledged)),
        *map(yaml.safe_load, _yaml_blocks("importing.md")),
    ):
        assert parse_study(with_systems(_AROUND | example)).sessions(), example


def test_every_study_that_is_shipped_is_a_valid_one():
    files = [CHECKOUT / "config" / "config.yaml", *sorted((CHECKOUT / "config" / "studies").glob("*.yaml"))]
    for file in files:
        assert load_study(file).sessions(), file


def test_the_tables_of_the_study_reference_are_up_to_date():
    for file in ("config/README.md", "docs/statistics.md"):
        text = (CHECKOUT / file).read_text()
        assert written_into(text) == text, f"run: python -m benchstudy.commands.reference {file}"


def test_every_command_in_the_guides_exists():
    guides = "".join(map(_document, ("tutorial.md", "own-machines.md", "examples.md", "every-day.md")))
    guides += (CHECKOUT / "README.md").read_text()
    in_tables = re.findall(r"^\| `([^`]+)` \|", guides, re.MULTILINE)
    guides = "\n".join([*re.findall(r"```sh\n(.*?)```", guides, re.DOTALL), *in_tables])
    found = set(re.findall(r"^benchstudy (\w+)", guides, re.MULTILINE))
    # Not by calling them, because `run` and `lab` become another program.
    assert len(found) >= 14 and found <= parsers(cli.command_parser()).keys()
    rules = "".join(file.read_text() for file in (CHECKOUT / "workflow").rglob("*") if file.is_file())
    for rule in sorted(set(re.findall(r"^snakemake .*?\b(report|measure|provision)\b", guides, re.MULTILINE))):
        assert f"rule {rule}:" in rules
    # The guide to many hosts stands for any study: without its name, Snakemake would take the one of the project.
    for command in re.findall(r"^snakemake .*", _document("scale.md"), re.MULTILINE):
        assert "--configfile config/fleet.yaml" in command
    targets = set(re.findall(r"^make ([a-z-]+)", guides, re.MULTILINE))
    assert targets <= set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.slow
def test_a_set_up_from_nothing_works_and_the_second_run_does_nothing(copy):
    outside = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=copy, env=outside, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stderr

    report, lint = ("make", "environment"), ("sh", "setup/environment.sh", "lint")
    assert "installing what requirements.lock pins" in run(*report)
    # The folder's name contains a space; programs of the environment must start all the same.
    version = subprocess.run([copy / ".venv/bin/benchstudy", "--version"], capture_output=True, text=True)
    assert version.stdout.startswith("benchstudy "), version.stderr
    assert not (copy / ".venv/bin/ruff").exists()
    assert run(*report) == ""
    if SYSTEMS.exists() and subprocess.run([SYSTEMS, "-c", ABLE], stderr=subprocess.DEVNULL).returncode == 0:
        assert (copy / ".venv/bin/python").samefile(SYSTEMS)

    assert "installing what requirements-dev.lock pins" in run(*lint)
    subprocess.run([copy / ".venv/bin/ruff", "--version"], check=True, stdout=subprocess.DEVNULL)
    assert run(*lint) == ""
    # The environment for tests includes the one for reports, and stays, whichever target asks.
    assert run(*report) == ""
