"""Your own project: what `benchstudy init` makes, and a study in it from a built wheel, without any checkout."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nothing_lost
import pytest
import yaml
from conftest import CHECKOUT
from jsonschema import Draft202012Validator
from waiting import until

from benchstudy import __version__
from benchstudy.commands import checks, cli, init
from benchstudy.measuring.instrument import instrument_sha256
from benchstudy.model import paths
from benchstudy.model.studyfile import load_study
from benchstudy.provenance.contents import software

TEMPLATES = init.templates()
# What the tutorial tells its readers to type, block by block.
TUTORIAL = re.findall(r"```sh\n(.*?)```", (CHECKOUT / "docs" / "tutorial.md").read_text(), re.DOTALL)
FROM_WHEEL = pytest.mark.skipif(os.getuid() != 0, reason="only root may hide the checkout from a command")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The message of a `benchstudy init` that must fail."""
    assert cli.main(["init", *map(str, arguments)]) == 1
    return capsys.readouterr().err


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_is_a_small_study_that_says_what_to_change(name: str):
    about, change, *rest = TEMPLATES[name].read_text().splitlines()
    assert about.startswith("# ") and change.startswith("# Change `") and len(rest) <= 25
    study = load_study(TEMPLATES[name])
    assert study.study == name and study.question and study.sessions() and study.unfit() == []
    assert all(plan.blocks >= 6 for plan in study.sessions()), "fewer give no interval, and no verdict"


def test_the_templates_are_those_that_lie_there_and_the_help_tells_them(capsys: pytest.CaptureFixture[str]):
    assert set(TEMPLATES) >= {"command", "fio", "file_size", "web-server"}
    with pytest.raises(SystemExit):
        cli.main(["init", "--help"])
    told = capsys.readouterr().out
    for name, path in TEMPLATES.items():
        assert re.search(rf"(?m)^  {name} +{re.escape(path.read_text().splitlines()[0][2:])}$", told)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_dry_run_lists_what_is_then_written(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "below" / "my-study"
    assert cli.main(["init", str(folder), "--from", name, "--dry-run"]) == 0
    listed = capsys.readouterr().out.split()
    assert listed and not folder.parent.exists()
    assert cli.main(["init", str(folder), "--from", name]) == 0
    said = capsys.readouterr().out
    assert sorted(map(str, files_below(folder))) == sorted(listed)
    assert f"cd {folder}" in said and "make report" in said and "snakemake --cores 8 report" in said
    study = load_study(folder / "config" / "config.yaml")
    assert study.study == "my-study" and list(study.families) == list(load_study(TEMPLATES[name]).families)
    assert {path.stem for path in (folder / "notebooks").iterdir()} == set(study.families)
    assert not [path for path in files_below(folder) if re.search("@(VERSION|STUDY)@", path.read_text())]
    file = folder / "config" / "config.yaml"
    schema = file.parent / re.match(r"# yaml-language-server: \$schema=(\S+)\n", file.read_text())[1]
    Draft202012Validator(json.loads(schema.read_text())).validate(yaml.safe_load(file.read_text()))
    assert f"benchstudy {__version__}" in (folder / ".github" / "workflows" / "study.yml").read_text()


def test_the_scripts_of_profiles_may_be_started(tmp_path: Path):
    assert cli.main(["init", str(tmp_path / "new")]) == 0
    scripts = [path for path in (tmp_path / "new").rglob("*") if path.is_file() and path.read_bytes()[:2] == b"#!"]
    assert len(scripts) == 3 and all(os.access(path, os.X_OK) for path in scripts)


def test_a_folder_with_blanks_is_quoted_where_a_shell_would_take_it_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "my lab" / "my-study"
    assert cli.main(["init", str(folder)]) == 0
    assert f"cd '{folder}'\n" in capsys.readouterr().out
    monkeypatch.chdir(folder / "config")
    assert cli.main(["cases"]) == 1
    assert capsys.readouterr().err.endswith(f"cd '{folder}'\n")


def test_a_disk_that_takes_no_more_is_named_by_the_new_folder(tmp_path: Path):
    command = ["prlimit", "--fsize=1000", sys.executable, "-m", "benchstudy.commands.cli", "init", "there/my-study"]
    (tmp_path / "there").mkdir()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("benchstudy: there/my-study: File too large: "), done.stderr
    assert list((tmp_path / "there").iterdir()) == []


def test_make_takes_another_study_whose_name_has_blanks(tmp_path: Path):
    assert cli.main(["init", str(tmp_path / "my-study")]) == 0
    study = tmp_path / "two  words.yaml"
    for folder, targets in (
        (CHECKOUT, ("report", "crate", "check")),
        (tmp_path / "my-study", ("report", "crate", "plan", "check")),
    ):
        for target in targets:
            told = subprocess.run(
                ["make", "-n", target, f"STUDY={study}"], cwd=folder, capture_output=True, text=True, check=True
            )
            [line] = [
                line for line in told.stdout.splitlines() if re.match(rf"\S*benchstudy (run .* )?{target}\b", line)
            ]
            words = shlex.split(line)
            after = words[words.index(str(study)) + 1 :]
            assert not after or after[0] == "--config", "Snakemake takes what follows a study's file for another one"


@pytest.mark.long
@pytest.mark.parametrize("command", [["cases"], ["cases", "--json"], ["plan", "--no-hosts"], ["run", "--version"]])
def test_closed_streams_change_no_status(command: list[str], tmp_path: Path):
    assert cli.main(["init", str(tmp_path / "my-study")]) == 0
    closed = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "benchstudy.commands.cli", *command]
    done = subprocess.run(closed, cwd=tmp_path / "my-study", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "") and "Traceback" not in done.stderr


def test_make_in_a_project_names_what_is_missing_and_installs_nothing_by_its_name(tmp_path: Path):
    assert cli.main(["init", str(tmp_path / "my-study")]) == 0
    empty = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(["make", "report"], cwd=tmp_path / "my-study", env=empty, capture_output=True, text=True)
    assert ran.returncode == 2
    assert f"run 'pipx install .' in a checkout of its version {__version__}" in ran.stderr
    assert not (tmp_path / "my-study" / ".venv").exists()


UNREADABLE = {
    "nope.yaml": (None, "there is no such study file; known: config/config.yaml"),
    "confg.yaml": (None, 'there is no such study file; did you mean "config/config.yaml"?'),
    "deep.yaml": ("a: " + "[" * 5000 + "]" * 5000, "it is nested too deeply: more than 100 levels"),
    "bytes.yaml": (b"\xff\xfe\x00", "not UTF-8 text: invalid start byte at byte 0: save it as UTF-8"),
    "list.yaml": (
        "- a\n",
        "a study is a mapping of names to values: begin it with `study: NAME`, with a space after the colon; see "
        "`benchstudy docs config`",
    ),
    "tab.yaml": (
        "study: x\n\tblocks: 6\n",
        "not valid YAML: line 2, column 1: found a tab character that violates indentation: indent with spaces",
    ),
    "notebooks": (None, "cannot be read as a study: Is a directory: name the study's file in it"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_study_that_cannot_be_read_is_refused_in_words_by_every_command(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    content, said = UNREADABLE[name]
    if content is not None:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    capsys.readouterr()
    for words in (
        ["run", "--configfile", name],
        ["run", "-n", f"--configfile={name}", "report"],
        ["check", name],
        ["systems", "--study", name],
        ["schema", "--study", name],
    ):
        assert cli.main(words) == 1
        assert capsys.readouterr().err == f"benchstudy: {name}: {said}\n"


def test_where_the_default_study_is_not_there_the_message_says_where_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["cases"], ["check"], ["plan"], ["discard", "--case", "x", "--why", "y"]):
        assert cli.main(words) == 1 and "`benchstudy init` makes one" in capsys.readouterr().err
    assert cli.main(["init", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine" / "notebooks")
    capsys.readouterr()
    assert cli.main(["cases"]) == 1 and f"cd {tmp_path / 'mine'}\n" in capsys.readouterr().err


def test_a_missing_study_is_not_answered_with_a_long_list(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    for name in "abcd":
        Path("config", f"{name}-b-c-d-e.yaml").touch()
    capsys.readouterr()
    assert cli.main(["check", "nope.yaml"]) == 1
    assert capsys.readouterr().err == (
        "benchstudy: nope.yaml: there is no such study file; give its path from this folder\n"
    )
    assert cli.main(["check", "confg.yaml"]) == 1 and 'did you mean "config/config.yaml"?' in capsys.readouterr().err


def test_a_check_takes_the_project_of_the_study_if_this_folder_is_in_none(tmp_path, monkeypatch, capsys):
    """Its loopback host keeps its keys in the project."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mine"]) == 0
    seen = []
    monkeypatch.setattr(checks, "check_host", lambda *of: seen.append(paths.project_root()) or [])
    for study in ("mine/config/config.yaml", str(tmp_path / "mine" / "config" / "config.yaml")):
        assert cli.main(["check", study]) == 0
    assert seen == [tmp_path / "mine"] * 2 and Path.cwd() == tmp_path


@pytest.mark.long
def test_a_mistake_in_the_default_study_is_named_with_its_line(tmp_path):
    """Snakemake itself only says that its config file is not valid."""
    assert cli.main(["init", str(tmp_path / "mine")]) == 0
    (tmp_path / "mine" / "config" / "config.yaml").write_text("study: x\n\tblocks: 6\n")
    command = [sys.executable, "-m", "snakemake", "-n", "report"]
    done = subprocess.run(command, cwd=tmp_path / "mine", capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "config/config.yaml: not valid YAML: line 2, column 1: found a tab" in done.stdout


def test_a_plan_of_a_new_project_says_what_it_writes_and_that_its_time_is_not_known(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    assert cli.main(["plan", "--no-hosts"]) == 0
    said = capsys.readouterr().out
    assert "study mine, 1 session\n" in said
    # The host of every template is called `here`, too.
    assert "writes here: data/raw/mine, data/provision/mine, data/tidy/mine, reports/mine, ~/.benchstudy\n" in said
    assert said.endswith("in total not known before the first trials, plus a few seconds per page\n")
    study = Path("config", "config.yaml")
    study.write_text(study.read_text().replace("{loopback: true}", "{address: db1}"))
    assert cli.main(["plan", "--no-hosts"]) == 0
    assert "tidy/mine, reports/mine\n  writes on host here: ~/.benchstudy\n" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["nowhere/schema.json", "folder"])
def test_a_file_that_cannot_be_written_is_called_by_its_own_name(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert cli.main(["schema", "-o", place]) == 1
    assert re.fullmatch(f"benchstudy: {place}: [A-Z][a-z ]+\n", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_run_says_who_may_not_write_to_the_project(tmp_path):
    """Snakemake ends in a traceback there."""
    project = tmp_path / "mine"
    assert cli.main(["init", str(project)]) == 0
    project.chmod(0o555)
    as_owner = ["setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override"] if os.getuid() == 0 else []
    command = [*as_owner, sys.executable, "-m", "benchstudy.commands.cli", "run", "-n", "report"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"benchstudy: {project}: you may not write there, and [^\n]+\n", done.stderr)


def test_an_import_that_nobody_watches_prints_nothing_but_what_it_did(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    capsys.readouterr()
    assert cli.main(["import", "nope.json"]) == 1
    assert capsys.readouterr().err == "benchstudy: nope.json: no such file or folder\n"


def test_an_empty_folder_is_taken_and_anything_else_is_left_as_it_is(tmp_path, monkeypatch, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    assert cli.main(["init", "."]) == 0 and (mine / "workflow" / "Snakefile").is_file()
    before = files_below(mine)
    assert "exists and is not an empty folder" in refused(capsys, ".")
    assert 'did you mean "web-server"?' in refused(capsys, tmp_path / "new", "--from", "webserver")
    assert "cannot be a name: use letters from A to Z" in refused(capsys, tmp_path / "größe")
    assert "cannot be a name" in refused(capsys, tmp_path / "my study")
    assert files_below(mine) == before and [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["123", "true", "null", "1e5", "2024-01-01", "0x1F", "1_0"])
def test_a_name_that_yaml_takes_for_something_else_is_the_name_of_the_study(name, tmp_path):
    assert cli.main(["init", str(tmp_path / name)]) == 0
    assert load_study(tmp_path / name / "config" / "config.yaml").study == name


@pytest.mark.parametrize("name", ["index", "comparisons", "x.zip", "x.pdf", "a" * 65, "a\nb"])
def test_a_name_that_no_study_may_have_is_refused_before_anything_is_written(name, tmp_path, capsys):
    assert "the study gets the folder's name" in refused(capsys, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_leads_nowhere_is_no_new_folder_and_no_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, towards in (("loop", "loop"), ("gone", "nowhere")):
        Path(name).symlink_to(towards)
        assert "exists and is not an empty folder" in refused(capsys, name)
    assert cli.main(["schema", "-o", "loop"]) == 0


def test_a_path_that_is_no_text_is_printed(tmp_path, monkeypatch):
    command = [sys.executable, "-m", "benchstudy.commands.cli", "init", "--json", os.fsdecode(b"\xff/new")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert os.fsencode(json.loads(done.stdout)["study"]) == b"\xff/new/config/config.yaml"


def test_a_folder_that_was_removed_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.main(["check"]) == 1
    assert capsys.readouterr().err == "benchstudy: this folder was removed: change to one that exists\n"


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    full = OSError(28, "No space left on device")

    def fail(self: Path, content: bytes) -> None:
        raise full

    monkeypatch.setattr(Path, "write_bytes", fail)
    assert "space" in refused(capsys, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_project_measures_and_reports_if_no_target_is_named(tmp_path):
    """Snakemake forgets the default target of an included Snakefile, and then does nothing, with status 0."""
    project = tmp_path / "mine"
    assert cli.main(["init", str(project)]) == 0
    run = [sys.executable, "-m", "benchstudy.commands.cli", "run", "-n"]
    planned = [
        re.findall(r"(?m)^rule (\w+)", subprocess.run(command, cwd=project, capture_output=True, text=True).stdout)
        for command in (run, [*run, "report"])
    ]
    assert planned[0] == planned[1] and {"measure_session", "build_index", "report"} <= set(planned[0])
    with (project / "workflow" / "Snakefile").open("a") as file:
        file.write("\n\nrule mine:\n    default_target: True\n    output:\n        touch('mine.txt'),\n")
    own = subprocess.run(run, cwd=project, capture_output=True, text=True).stdout
    assert re.findall(r"(?m)^rule (\w+)", own) == ["mine"]


@pytest.mark.long
def test_run_is_snakemake_and_belongs_where_the_workflow_lies(tmp_path, monkeypatch, capsys):
    project = tmp_path / "mine"
    assert cli.main(["init", str(project)]) == 0
    command = [sys.executable, "-m", "benchstudy.commands.cli", "run", "--version"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.fullmatch(r"9\.\d+\.\d+\n", done.stdout)
    for folder, said in ((project / "notebooks", f"cd {project}"), (tmp_path, "`benchstudy init` makes one")):
        monkeypatch.chdir(folder)
        assert cli.main(["run", "report", "-n"]) == 1 and said in capsys.readouterr().err


@pytest.mark.parametrize(("command", "started"), [("run", "Snakemake"), ("lab", "JupyterLab")])
def test_help_of_what_is_started_is_short_and_leads_on(command, started, tmp_path, monkeypatch, capsys):
    """Anywhere, and without the project that a new user does not have yet."""
    monkeypatch.chdir(tmp_path)
    for words in (["--help"], ["-h"], ["report", "--help"]):
        assert cli.main([command, *words]) == 0
        told = capsys.readouterr().out
        assert told.startswith(f"usage: benchstudy {command} ") and "ARGUMENT" not in told
        assert re.search(rf"(?m)^  --help-all +show all options of {started}$", told) and len(told.splitlines()) < 30
    assert command == "lab" or {"--configfile", "--cores", "report", "crate"} <= set(re.findall(r"[\w-]+", told))


@pytest.mark.long
@pytest.mark.long
def test_a_wrong_option_of_run_is_told_in_a_line(tmp_path):
    project = tmp_path / "mine"
    assert cli.main(["init", str(project)]) == 0
    for word, told in {
        "--nope": "unrecognized arguments: --nope",
        "--jobs": "--jobs/-j: expected one argument",
    }.items():
        command = [sys.executable, "-m", "benchstudy.commands.cli", "run", word]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1
        assert done.stderr.endswith("; `benchstudy run --help-all` shows all options\n")


def test_all_options_of_snakemake_are_shown_on_request(tmp_path):
    command = [sys.executable, "-m", "benchstudy.commands.cli", "run", "--help-all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "--rerun-triggers" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("chekc", "benchstudy: error: argument COMMAND: there is no 'chekc': did you mean \"check\"?"),
        ("check --no-hsts", "benchstudy check: error: there is no option '--no-hsts': did you mean \"--no-hosts\"?"),
        ("check --x", "there is no option '--x': known: --help, --json, --no-hosts, --try, -h"),
        ("plan a.yaml b.yaml", "benchstudy plan: error: 'b.yaml' is one argument too many"),
        ("cases --study a.yaml", "'--study': write the study's file alone: benchstudy cases FILE"),
        ("verify --configfile=a.yaml", "'--configfile': write the study's file alone: benchstudy verify FILE"),
        ("completion fish", "there is no 'fish': known: bash, zsh"),
        ("run report --study a.yaml", "'--study': write `snakemake --cores 8 report --configfile a.yaml`"),
        ("run --study=a.yaml -n", "'--study': write `snakemake --cores 8 report --configfile a.yaml`"),
        ("run --study", "write `snakemake --cores 8 report --configfile FILE`"),
        ("run a.yaml", "a.yaml: a study is not a target: write `snakemake --cores 8 report --configfile a.yaml`"),
        (
            "run -n --cores 1 a.yml",
            "a.yml: a study is not a target: write `snakemake --cores 8 report --configfile a.yml`",
        ),
    ],
)
def test_a_wrong_word_is_refused_with_the_usage_of_its_command_and_what_is_near(words, told, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(words.split())
    said = capsys.readouterr()
    usage = re.search(r"benchstudy( \w+)?: error", said.err)[1] or ""
    assert (end.value.code, said.out) == (2, "")
    assert said.err.startswith(f"usage: benchstudy{usage} [") and said.err.endswith(f"{told}\n")


@pytest.mark.long
def test_snakemake_refuses_a_study_as_a_target_too(tmp_path):
    """It would have nothing to do, with status 0: the file is there, and no rule makes it."""
    assert cli.main(["init", str(tmp_path / "mine")]) == 0
    command = [sys.executable, "-m", "snakemake", "-n", "report", "config/config.yaml"]
    done = subprocess.run(command, cwd=tmp_path / "mine", capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "config/config.yaml: a study is not a target: write" in done.stdout
    done = subprocess.run([*command[:-2], "reprot"], cwd=tmp_path / "mine", capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert 'Error: reprot: no rule makes this target: did you mean "report"?' in done.stdout + done.stderr


@pytest.mark.parametrize("loaded", ["", "psutil"])
def test_ctrl_c_while_snakemake_imports_is_answered_in_a_word(loaded, tmp_path):
    """At once, and after a library that it imports was mapped."""
    project = tmp_path / "mine"
    assert cli.main(["init", str(project)]) == 0
    command = [sys.executable, "-m", "benchstudy.commands.cli", "run", "-n"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        until(lambda: b"benchstudy.jobs.begun" in Path(f"/proc/{run.pid}/cmdline").read_bytes())
        until(lambda: loaded in Path(f"/proc/{run.pid}/maps").read_text())
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=60)
    assert (run.returncode, *said) == (130, "", "interrupted\n")


def test_ctrl_c_while_benchstudy_imports_is_answered_in_a_word(tmp_path):
    """The executable starts what pyproject.toml names. It gets a real signal amid the imports, which take a second."""
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts["benchstudy"].partition(":")
    script = tmp_path / "benchstudy"
    script.write_text(f"""
import os, signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == "benchstudy.model.studyfile":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from {module} import {function}
sys.exit({function}())
""")
    done = subprocess.run([sys.executable, script, "docs"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "benchstudy: interrupted\n")


# --- from a wheel ----------------------------------------------------------------------------------------------------


class Installed:
    """benchstudy from a wheel, in an environment of its own that borrows the dependencies of the tests' environment.

    Its commands run with the checkout's folders hidden (a mount namespace), an empty home and a plain PATH.
    """

    def __init__(self, folder: Path):
        self.wheel = build_wheel(folder)
        self.venv, self.home = folder / "venv", folder / "home"
        self.home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        uv = Path(sys.executable).with_name("uv")
        python = self.venv / "bin" / "python"
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, self.wheel], check=True
        )
        (site,) = self.venv.glob("lib/python3*/site-packages")
        # This is a plain path, so no .pth file in it is read, and the checkout's editable installation is out of reach.
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.package = site / "benchstudy"
        # Files of Jupyter that are not modules.
        (self.venv / "share").symlink_to(Path(sys.prefix) / "share")
        self.environment = {
            "PATH": f"{self.venv / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "BENCHSTUDY_HOST_LOCK": str(folder / "host.lock"),
            **{name: value for name, value in os.environ.items() if name.startswith("BENCHSTUDY_TEST")},
        }
        folders = ("src", "workflow", "envs", "notebooks", "config", "data", "setup", "tests")
        self._hide = "; ".join(f"mount -t tmpfs none '{CHECKOUT / name}'" for name in folders)

    def run(self, folder: Path, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "--mount", "sh", "-euc", f'{self._hide}; exec "$@"', "sh", *map(str, argv)]
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if check and done.returncode != 0:
            pytest.fail(f"{argv} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done


def build_wheel(into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    yield Installed(folder)
    # The process with the libraries of jobs notices that its command has ended, and ends.
    until(lambda: not nothing_lost.processes(str(folder)))


@FROM_WHEEL
def test_a_wheel_has_what_a_crate_of_a_checkout_has(installed: Installed):
    with zipfile.ZipFile(installed.wheel) as archive:
        names = set(archive.namelist())
    carried = {re.sub("^benchstudy/_shipped/|^(?=benchstudy/)", lambda m: "" if m[0] else "src/", n) for n in names}
    missing = set(software(CHECKOUT)) - carried
    assert missing == set()


@FROM_WHEEL
def test_the_instruments_are_those_of_the_checkout(installed: Installed, tmp_path: Path):
    families = sorted({family for path in TEMPLATES.values() for family in load_study(path).families} | {"load_test"})
    assert cli.main(["init", str(tmp_path / "mine")]) == 0
    code = (
        "import sys; from benchstudy.measuring.instrument import instrument_sha256 as i; print(*map(i, sys.argv[1:]))"
    )
    done = installed.run(tmp_path / "mine", "python", "-c", code, *families)
    assert done.stdout.split() == [instrument_sha256(family) for family in families]


@FROM_WHEEL
@pytest.mark.server
@pytest.mark.slow
def test_a_study_from_the_wheel_goes_all_the_way_that_the_tutorial_takes(installed: Installed, tmp_path: Path):
    install, begin, look, measure, extend, pack, make_again = TUTORIAL
    assert install.startswith("pipx install "), "the wheel stands for it"
    assert installed.run(tmp_path, "benchstudy", "docs", "tutorial").stdout.startswith("# ")
    where = installed.run(tmp_path, "python", "-c", "import benchstudy; print(benchstudy.__file__)").stdout
    assert (
        Path(where.strip()) == installed.package / "__init__.py"
        and not installed.run(tmp_path, "ls", CHECKOUT / "src").stdout
    )
    said = installed.run(tmp_path, "sh", "-ec", begin).stdout
    assert "without make: `benchstudy run report`" in said
    project = tmp_path / "my-study"
    study = project / "config" / "config.yaml"
    # As for a user who wants an answer sooner, in a folder that the test removes.
    own = study.read_text().replace("loopback: true", f"loopback: true, work_dir: {tmp_path / 'work'}")
    study.write_text(own.replace("blocks: 6", "blocks: 2").replace("repeat: 3", "repeat: 1"))
    assert "command=gzip,level=9" in installed.run(project, "sh", "-ec", look).stdout
    installed.run(project, "sh", "-ec", measure)
    index = (project / "reports" / "my-study" / "index.html").read_text()
    assert f"made by benchstudy {__version__}" in index and (project / "reports" / "index.html").is_file()
    again = installed.run(project, "benchstudy", "run", "-n", "report")
    assert "Nothing to be done" in again.stdout + again.stderr

    raw = project / "data" / "raw" / "my-study" / "this-machine" / "command"
    before = {path.parent.name for path in raw.glob("*/*/trial.json")}
    installed.run(project, "sh", "-ec", extend)
    after = {path.parent.name for path in raw.glob("*/*/trial.json")}
    assert before < after and len(after) == 3 * 2, "two blocks of the new level, and no other trial"

    # What git keeps of it is enough for the CI example.
    clone = tmp_path / "clone" / "my-study"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(project)]
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "The study as measured"],
        ["clone", "-q", ".", str(clone)],
    ):
        subprocess.run([*git, *command], check=True)
    assert not (clone / "data" / "tidy").exists() and not (clone / ".snakemake").exists()
    job = yaml.safe_load((clone / ".github" / "workflows" / "study.yml").read_text())["jobs"]["report"]
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert steps[0] == 'pip install "${{ vars.BENCHSTUDY }}"' and len(steps) == 4
    for step in steps[1:3]:
        installed.run(clone, "sh", "-ec", step)
    # The crate's reports are made again below, from the same raw files.
    planned = installed.run(clone, "sh", "-ec", f"{steps[3]} -n").stdout
    assert {"tidy_family", "make_page", "build_index"} == set(
        re.findall(r"^rule (tidy\w+|\w+_page|\w+_index)", planned, re.M)
    )
    assert "measure_session" not in planned and "provision_target" not in planned

    installed.run(project, "sh", "-ec", pack)
    with zipfile.ZipFile(project / "reports" / "my-study.crate.zip") as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
        assert archive.read("workflow/Snakefile") == (CHECKOUT / "workflow" / "Snakefile").read_bytes()
    assert set(software(CHECKOUT)) <= packed, "an unpacked one is laid out as a checkout"
    done = installed.run(project, "sh", "-ec", make_again)
    tables = list((project / "reports" / "my-study").rglob("*.csv"))
    assert tables and f"{len(tables)} tables are the same in every cell" in done.stdout
    assert "differs from the crate's" not in done.stdout and "differ from the crate's" not in done.stdout
