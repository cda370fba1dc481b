"""Reports of a crate made again by a second clone that knows no host, from a study that was really measured."""

import csv
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import Project, copy_project

from benchstudy.commands import cli
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sessionindex import write_index
from benchstudy.model import paths
from benchstudy.model.studyfile import load_study
from benchstudy.provenance import reproduce as provenance
from benchstudy.provenance.checks import check_crate

STUDY = {
    "study": "tiny",
    "question": "Is a folder that is not there slower?",
    "blocks": 2,
    # Braces are placeholders in texts of Snakemake.
    "authors": [{"name": "Ada Example", "affiliation": "The {Lab}"}],
    "hosts": {"local": {"loopback": True, "work_dir": "/var/tmp/benchstudy-test-reproduce"}},
    "targets": {"one": {"roles": {"sut": "local"}}},
    "families": {
        "file_size": {
            "backends": [
                {"name": "disk", "kind": "path", "path": "/var/tmp"},
                {"name": "gone", "kind": "path", "path": "/var/tmp/benchstudy-is-not-there"},
            ],
            "sizes": ["100KB"],
            "sync": ["fsync"],
            "cache": ["cold"],
            "operations": 2,
        }
    },
}

PROBLEM = "local: no answer within 120 s"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A study half of which failed and whose session did not come to its end; measured, reported and packed."""
    project = copy_project(tmp_path_factory.mktemp("measured") / "project")
    file = project.write_study(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        # Another suite on the same machine must not look like a second controller.
        patch.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path_factory.mktemp("lock") / "host.lock"))
        project.snakemake("measure", "--configfile", "config/study.yaml")
    (plan,) = load_study(file).sessions()
    store = TrialStore(paths.family_raw(project.root, "tiny", "one", "file_size"))
    write_index(plan, store, store.trials(), PROBLEM)
    project.snakemake("crate", "--configfile", "config/study.yaml", "--config", "measure=false")
    return project


@pytest.fixture(scope="module")
def crate(measured: Project) -> Path:
    return measured.root / "reports" / "tiny.crate.zip"


@pytest.fixture(scope="module")
def clone(measured: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout of the same software that never measured anything."""
    root = tmp_path_factory.mktemp("clone") / "project"
    made = shutil.ignore_patterns("raw", "tidy", "provision", "reports", "logs", ".snakemake", ".benchstudy")
    shutil.copytree(measured.root, root, ignore=made)
    return Project(root)


def reproduce(capsys: pytest.CaptureFixture[str], root: Path, crate: Path, *words: str | Path) -> tuple[int, str, str]:
    """`benchstudy reproduce` in the clone at `root`: its exit status, its output and its errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        status = cli.main(["reproduce", str(crate), *map(str, words), "--cores", "2"])
    return status, *capsys.readouterr()


def test_a_crate_holds_every_trial_of_a_study_that_partly_failed(measured, crate):
    index = json.loads((measured.root / "data/raw/tiny/one/file_size/session.json").read_text())
    with zipfile.ZipFile(crate) as archive:
        records = [json.loads(archive.read(n)) for n in archive.namelist() if n.endswith("/trial.json")]
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    assert {record["uuid"] for record in records} == {trial["uuid"] for trial in index["trials"]}
    assert [entity["name"] for entity in graph if entity["@type"] == "Organization"] == ["The {Lab}"]
    assert sorted(record["status"] for record in records) == ["failed"] * 4 + ["ok"] * 4
    assert check_crate(crate).lines == []
    (instrument,) = [entity for entity in graph if entity["@id"].startswith("#instrument/file_size/")]
    assert instrument["sha256"] == records[0]["instrument"]
    assert instrument["description"].endswith("; src/ of this crate holds it")
    assert index["problem"] == PROBLEM, "a run that only takes what there is keeps it"


def test_packing_again_plans_nothing_and_gives_the_same_bytes(measured, crate):
    before = crate.read_bytes()
    arguments = ("crate", "--configfile", "config/study.yaml", "--config", "measure=false")
    planned = measured.snakemake("-n", *arguments)
    assert "Nothing to be done" in planned.stdout + planned.stderr
    done = measured.run("python", "-m", "benchstudy.commands.cli", "crate", "config/study.yaml", "--json")
    assert crate.read_bytes() == before
    told = json.loads(done.stdout)
    assert told["path"] == str(crate) and told["sha256"] == hashlib.sha256(before).hexdigest()
    assert told["size"] == len(before) and told["trials"] == 8 and told["files"] > told["trials"]


@pytest.mark.parametrize("name", ["tiny/file_size/tables/estimates.csv", "tiny/index.html"])
def test_a_report_that_somebody_edited_is_not_packed(measured, crate, monkeypatch, capsys, name):
    packed, path = crate.read_bytes(), measured.root / "reports" / name
    before, stat = path.read_bytes(), path.stat()
    monkeypatch.chdir(measured.root)
    path.write_bytes(before + b" ")
    assert cli.main(["crate", "config/study.yaml"]) == 1
    assert f"{name}: not as it was made; run `snakemake" in capsys.readouterr().err
    assert crate.read_bytes() == packed
    path.write_bytes(before)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    "newer, edit",
    [
        ("data/raw/tiny/one/file_size/session.json", lambda text: text.replace(PROBLEM, "another problem")),
        ("notebooks/file_size.ipynb", lambda text: f"{text} "),
        ("config/study.yaml", lambda text: f"{text}title: Another title\n"),
    ],
)
def test_reports_of_other_data_or_code_than_those_to_pack_are_not_packed(measured, crate, newer, edit):
    """As after `benchstudy run measure`: nobody could make their tables again from the crate."""
    command = ("python", "-m", "benchstudy.commands.cli", "crate", "config/study.yaml")
    packed, path = crate.read_bytes(), measured.root / newer
    before, stat = path.read_bytes(), path.stat()
    path.write_text(edit(before.decode()))
    done = measured.run(*command, check=False)
    assert done.returncode == 1 and crate.read_bytes() == packed
    assert "its reports are not made from what is here now (rule " in done.stderr
    assert "snakemake --cores 8 report --configfile config/study.yaml --config measure=false` first" in done.stderr
    path.write_bytes(before)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    measured.run(*command)
    assert crate.read_bytes() == packed


@pytest.fixture(scope="module")
def again(clone: Project, crate: Path) -> tuple[Project, str]:
    """What the clone made from the crate, and its messages."""
    done = clone.run("python", "-m", "benchstudy.commands.cli", "reproduce", crate, "--cores", "2")
    return Project(clone.root / "reproduced" / "tiny"), done.stdout


def test_a_second_clone_makes_the_same_tables_without_any_host(again, crate):
    project, said = again
    into = project.root
    with zipfile.ZipFile(crate) as archive:
        tables = [name for name in archive.namelist() if name.startswith("reports/tiny/") and name.endswith(".csv")]
        for name in tables:
            assert (into / name).read_bytes() == archive.read(name), name
    assert len(tables) > 3
    assert f"{len(tables)} tables are the same in every cell" in said
    assert (
        "no host contacted" in said and "differs from the crate's" not in said and "differ from the crate's" not in said
    )
    log = (into / "snakemake.log").read_text()
    assert "make_page" in log and not re.search("measure_session|provision_target", log)
    assert not (into / ".benchstudy" / "loopback").exists(), "no key, no sshd, no connection"
    assert PROBLEM in (into / "reports/index.html").read_text()
    # The strongest form of "the same": packed by the same software, what is made again is the same file.
    project.run("python", "-m", "benchstudy.commands.cli", "crate", "study.json")
    assert (into / "reports" / "tiny.crate.zip").read_bytes() == crate.read_bytes()


@pytest.fixture
def made_before(again, monkeypatch) -> None:
    """The reports were made above; the test is about what they are compared with."""
    made = again[0].root / "reports"
    monkeypatch.setattr(provenance, "_make_reports", lambda into, cores: shutil.copytree(made, into / "reports"))


@pytest.fixture
def edited(clone: Project, tmp_path: Path) -> Path:
    """A clone with other software, and with a package of another version."""
    root = tmp_path / "edited"
    shutil.copytree(clone.root, root, ignore=shutil.ignore_patterns("reproduced"))
    (root / "src/benchstudy/report/human.py").open("a").write("# An edit that changes no figure.\n")
    lock = root / "requirements.lock"
    lock.write_text(re.sub(r"(?m)^rich==\S+", "rich==1.2.3", lock.read_text()))
    return root


def test_tables_that_raw_files_do_not_give_are_named(made_before, clone, crate, tmp_path, capsys):
    into = tmp_path / "again"
    status, printed, complaint = reproduce(
        capsys, clone.root, altered(crate, tmp_path / "altered.zip"), "--into", into, "--json"
    )
    assert status == 1
    told = json.loads(printed)
    cell = r"file_size/tables/\S+\.csv, row 1 \(.*\), .*: '.*, but faster' in the crate, '.*' now"
    assert re.search(
        rf"TABLES DIFFER:\n  {cell}\n  file_size/tables/invented\.csv: a table in the crate, none now", complaint
    )
    assert told["others_differ"] == [], "pages, figures, tables in other formats: the same bytes"
    assert told["code"] == []
    assert {"where", "was", "now"} == set(told["differences"][0])
    assert (told["study"], told["folder"]) == ("tiny", str(into))


def test_software_that_is_not_that_of_the_crate_is_named(made_before, edited, crate, capsys):
    status, printed, _ = reproduce(capsys, edited, crate)
    assert status == 0
    with zipfile.ZipFile(crate) as archive:
        pinned = re.search(r"(?m)^rich==(\S+)", archive.read("requirements.lock").decode())[1]
    assert "tables are the same in every cell" in printed
    assert "the software here differs from the crate's:\n  src/benchstudy/report/human.py\n" in printed
    assert f"packages here differ from the crate's:\n  rich {pinned}, here 1.2.3\n" in printed


def test_a_lock_with_pins_for_several_pythons_differs_in_none_of_them(made_before, crate, tmp_path, capsys):
    with zipfile.ZipFile(crate) as archive:
        assert archive.read("requirements.lock").count(b"\nnumpy==") > 1
    status, printed, _ = reproduce(capsys, tmp_path, crate)  # without a project, what is installed is compared
    assert status == 0 and "packages here differ" not in printed


def altered(crate: Path, into: Path) -> Path:
    """A crate whose tables do not match its raw files: one cell differs, and one table is invented."""
    with zipfile.ZipFile(crate) as archive:
        found = (name for name in archive.namelist() if re.fullmatch(r"reports/tiny/file_size/tables/[^/]*\.csv", name))
        name = min(found)
        rows = list(csv.reader(io.StringIO(archive.read(name).decode(), newline="")))
    rows[1][-1] += ", but faster"
    csv.writer(text := io.StringIO(newline=""), lineterminator="\n").writerows(rows)
    return resealed(
        crate, into, {name: text.getvalue().encode(), "reports/tiny/file_size/tables/invented.csv": b"x\n1\n"}
    )


def resealed(crate: Path, into: Path, changes: dict[str, bytes]) -> Path:
    """A copy with other files, with sums that match them."""
    with zipfile.ZipFile(crate) as archive:
        files = {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()} | changes
    description = json.loads(files["ro-crate-metadata.json"])
    for entity in description["@graph"]:
        if entity["@id"] in changes:
            entity["sha256"] = sha256(changes[entity["@id"]]).hexdigest()
    files["ro-crate-metadata.json"] = json.dumps(description).encode()
    del files["SHA256SUMS"]
    files["SHA256SUMS"] = "".join(f"{sha256(content).hexdigest()}  {n}\n" for n, content in files.items()).encode()
    with zipfile.ZipFile(into, "w") as out:
        for name, content in files.items():
            out.writestr(name, content)
    return into


def test_a_study_of_a_newer_version_is_left_to_the_software_in_its_crate(clone, crate, tmp_path, capsys):
    with zipfile.ZipFile(crate) as archive:
        study = json.loads(archive.read("study.json")) | {"telepathy": True}
    newer = resealed(crate, tmp_path / "newer.zip", {"study.json": json.dumps(study).encode()})
    status, _, complaint = reproduce(capsys, clone.root, newer)
    assert status == 1
    assert "cannot read its study (telepathy: unknown key" in complaint and "unpack it, and run" in complaint


@pytest.mark.fault(39)
def test_nothing_is_made_of_a_crate_that_is_not_as_it_was_packed(clone, crate, tmp_path, capsys):
    copy = tmp_path / "altered.zip"
    with zipfile.ZipFile(crate) as archive, zipfile.ZipFile(copy, "w") as out:
        for entry in archive.infolist():
            content = archive.read(entry)
            out.writestr(entry.filename, content + b" " if entry.filename.endswith("/trial.json") else content)
    status, _, complaint = reproduce(capsys, clone.root, copy, "--into", tmp_path / "into")
    assert status == 1
    assert complaint.count("trial.json: altered: its SHA-256 differs from the one in SHA256SUMS") == 8
    assert not (tmp_path / "into").exists()


def test_no_folder_of_anybody_else_is_replaced(clone, crate, tmp_path, capsys):
    (tmp_path / "precious").write_text("mine")
    for into in (tmp_path, tmp_path / "precious"):
        status, _, complaint = reproduce(capsys, clone.root, crate, "--into", into)
        assert status == 1 and "exists and is not an earlier reproduction; name another folder with --into" in complaint
    assert (tmp_path / "precious").read_text() == "mine"


def test_make_reproduce_needs_no_ssh_and_says_what_it_is_given(clone, crate, tmp_path):
    done = clone.run("make", "reproduce", check=False)
    assert done.returncode != 0 and "name the crate: make reproduce CRATE=" in done.stderr
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "awk", "id"):
        (tools / tool).symlink_to(shutil.which(tool))
    script = f'PATH={tools}; . setup/packages.sh; require_commands reproduce; echo "missing:$missing"'
    assert clone.run("sh", "-c", script).stdout == "missing:\n"
    assert "openssh-client" in clone.run("sh", "-c", script.replace(" reproduce", " report")).stdout
