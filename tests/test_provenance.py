"""A study as one file: complete, described, reproducible to the byte, without secrets, and checked to the last file."""

import base64
import errno
import html
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, unquote

import markupsafe
import offline_validator
import pytest
import yaml
from conftest import CHECKOUT, Project, copy_project
from crate_study import CrateStudy
from stored_study import LOST, SESSION

from benchstudy.commands.cli import main
from benchstudy.measuring.sealed import seal
from benchstudy.measuring.storedtrials import CorruptTrial
from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError, StudyError
from benchstudy.model.files import sha256_of
from benchstudy.model.studyfile import load_study, parse_study
from benchstudy.provenance import reproduce, tables
from benchstudy.provenance.checks import check_crate, check_study
from benchstudy.provenance.contents import as_declared
from benchstudy.provenance.crate import Packed, build_crate
from benchstudy.provenance.leaks import SecretFound, Secrets


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> CrateStudy:
    """The crate; tests do not change it."""
    return CrateStudy(tmp_path_factory.mktemp("crate") / "project")


@pytest.fixture(scope="module")
def little_software(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_project(tmp_path_factory.mktemp("little") / "project").root
    for folder in ("envs", "src/benchstudy", "data/published"):
        shutil.rmtree(root / folder)
    return root


@pytest.fixture
def own_study(little_software: Path, tmp_path: Path) -> CrateStudy:
    """A copy to change."""
    shutil.copytree(little_software, tmp_path / "project")
    return CrateStudy(tmp_path / "project", Project(tmp_path / "project"))


@pytest.fixture(scope="module")
def packed(study: CrateStudy) -> Packed:
    return pack(study)


def pack(study: CrateStudy, *accepted: str) -> Packed:
    return build_crate(study.root, study.study, paths.crate(study.root, study.study.study), accepted)


@pytest.fixture(scope="module")
def entities(packed: Packed) -> dict[str, dict]:
    with zipfile.ZipFile(packed.path) as archive:
        return {entity["@id"]: entity for entity in json.loads(archive.read("ro-crate-metadata.json"))["@graph"]}


def rewrite(path: Path, into: Path, changes: Mapping[str, bytes | None]) -> Path:
    """A copy of a crate with other files; None leaves a file out."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(into, "w") as out:
        for name in archive.namelist():
            content = changes.get(name, archive.read(name))
            if content is not None:
                out.writestr(name, content)
        for name in changes.keys() - set(archive.namelist()):
            out.writestr(name, changes[name])
    return into


def at(study: CrateStudy, trial: str, file: str) -> str:
    folder = getattr(study, trial).folder.relative_to(study.root).as_posix()
    return f"{folder}/{file}"


# -- what is in it ----------------------------------------------------------------------


def test_a_crate_meets_every_requirement_of_its_profiles(packed, tmp_path):
    problems, checks = offline_validator.problems(packed.path, tmp_path)
    assert problems == []
    assert checks > 60, "those of RO-Crate, Workflow RO-Crate, Process, Workflow and Provenance Run Crate"


def test_every_trial_is_in_it_and_says_how_it_ended(study, entities):
    action = {
        name: entities[f"#trial/{getattr(study, name).record.uuid}"]
        for name in ("ok", "failed", "timeout", "aborted", "discarded", "imported")
    }
    assert {name: found["actionStatus"].rpartition("/")[2] for name, found in action.items()} == {
        "ok": "CompletedActionStatus", "failed": "FailedActionStatus", "timeout": "FailedActionStatus",
        "aborted": "FailedActionStatus", "discarded": "CompletedActionStatus", "imported": "CompletedActionStatus",
    }  # fmt: skip
    assert "error" not in action["ok"]
    assert action["failed"]["error"] == "failed: 403 <script>"
    assert action["timeout"]["error"] == "timeout: took longer than 600 s"
    assert "discarded by hand: the disk was being scrubbed" in action["discarded"]["description"]
    assert "Imported from answer.json" in action["imported"]["description"]
    told = entities[f"#trial/{study.disturbed.record.uuid}"]["description"]
    assert "disturbed: other programs used 1.1 of 2 processors of box (backup)" in told
    assert f"set aside: trial {study.ok.short} replaces it" in told
    assert "disturbed" not in action["ok"]["description"]
    assert entities[action["imported"]["instrument"]["@id"]]["softwareVersion"] == "fio-3.33"
    levels = [entities[ref["@id"]] for ref in action["ok"]["object"] if ref["@id"] != "study.json"]
    assert {level["name"]: level["value"] for level in levels} == study.ok.record.levels
    folder = entities[action["ok"]["result"]["@id"]]
    assert {entities[part["@id"]]["name"] for part in folder["hasPart"]} == {
        "trial.json", "SHA256SUMS", "interference.json", "stdout", "stderr", "supervisor.json", "answer of it.json",
    }  # fmt: skip


def test_commands_name_their_tool_by_its_hash_their_host_and_what_they_left(study, entities):
    command = entities[f"#command/{study.failed.record.uuid}/1"]
    assert command["description"] == "python3 probe 'a b'"
    assert command["error"] == "exited, exit status 1"
    tool = entities[command["instrument"]["@id"]]
    assert (tool["name"], tool["sha256"]) == ("python3", "a" * 64)
    assert {ref["@id"].rpartition("/prepare/")[2] for ref in command["result"]} == {
        "stdout", "stderr", "supervisor.json", "files/answer%20of%20it.json",
    }  # fmt: skip
    host = entities[command["location"]["@id"]]
    facts = {entities[ref["@id"]]["name"]: entities[ref["@id"]]["value"] for ref in host["additionalProperty"]}
    assert facts == {"System": "Debian 12", "Kernel": "6.1.0", "Processors allowed": "2"}


def test_sessions_are_steps_also_one_whose_record_was_lost(study, entities):
    session, lost = entities[f"#session/{SESSION}"], entities[f"#session/{LOST}"]
    assert len(session["object"]) == 5 and lost["object"]["@id"] == f"#trial/{study.aborted.record.uuid}"
    assert "lost" in lost["name"] and "lost" not in session["name"]
    assert entities[session["subjectOf"]["@id"]]["hasPart"]
    instrument = entities[entities[session["instrument"]["@id"]]["workExample"]["@id"]]
    assert instrument["sha256"] == "2" * 64
    assert instrument["description"].endswith("src/ of this crate holds another version of it")
    root = entities["./"]
    assert {ref["@id"] for ref in root["mentions"]} >= {"#run", "#engine-run", f"#session/{SESSION}"}
    assert entities["#snakemake"]["softwareVersion"] in (CHECKOUT / "requirements.lock").read_text()


def test_it_says_who_made_it_what_is_allowed_and_how_many_trials_failed(packed, entities):
    root = entities["./"]
    assert root["license"]["@id"] == "https://spdx.org/licenses/CC-BY-4.0"
    author = entities[root["author"]["@id"]]
    assert (author["@id"], author["name"]) == ("https://orcid.org/0000-0002-1825-0097", "Ada Example")
    of_them = "1 of them discarded by hand; 1 of them disturbed by other work on the host"
    said = f"7 trials: 4 ok, 1 failed, 1 timeout, 1 aborted; {of_them}"
    assert root["description"].startswith("Does the bucket keep up with the disk?") and said in root["description"]
    assert root["datePublished"].startswith("2026-11-20T10:00")
    with zipfile.ZipFile(packed.path) as archive:
        readme = archive.read("README.md").decode()
    assert said in readme and "By\n\n- Ada Example, Example Lab, <https://orcid.org/0000-0002-1825-0097>\n" in readme


def test_a_session_that_could_not_be_held_makes_the_run_a_failed_one(own_study):
    own_study.index(problem="box: no answer\nwithin 120 s <script>")
    with zipfile.ZipFile(pack(own_study).path) as archive:
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
        readme = archive.read("README.md").decode()
    (run,) = [entity for entity in graph if entity["@id"] == "#run"]
    assert run["actionStatus"].endswith("FailedActionStatus")
    assert run["error"] == "file_size on one: box: no answer\nwithin 120 s <script>"
    assert "- file_size on one: box: no answer within 120 s &lt;script&gt;\n" in readme


def test_it_holds_reports_and_software_and_nothing_that_is_left_lying_about(study, packed):
    (study.root / "src" / "benchstudy" / "model" / "__pycache__").mkdir(exist_ok=True)
    (study.root / "src" / "benchstudy" / "model" / "__pycache__" / "study.pyc").touch()
    (study.root / "src" / "benchstudy" / "model" / ".study.py.swp").touch()
    with zipfile.ZipFile(pack(study).path) as archive:
        names = {entry.filename for entry in archive.infolist() if not entry.is_dir()}
    tops = {name.split("/")[0] for name in names}
    assert tops == {
        "ro-crate-metadata.json", "SHA256SUMS", "README.md", "study.json", "LICENSE", "Makefile", "pyproject.toml",
        "requirements.lock", "setup", "workflow", "src", "envs", "notebooks", "reports", "data",
    }  # fmt: skip
    assert {name for name in names if name.startswith("reports/")} == {
        "reports/small/index.html", "reports/small/file_size.html", "reports/small/file_size/tables/write.csv",
        "reports/small/notebooks/file_size.ipynb",
    }  # fmt: skip
    assert "src/benchstudy/model/study.py" in names and "data/published/README.md" in names
    assert not [name for name in names if "__pycache__" in name or "/." in name or ".partial" in name]
    assert any("/discards/" in name for name in names)


def test_the_study_in_it_is_the_one_that_was_declared(study, packed):
    with zipfile.ZipFile(packed.path) as archive:
        declared = json.loads(archive.read("study.json"))
    again = parse_study(declared, stored=True)
    assert again == study.study and again.sha256 == study.study.sha256


@pytest.mark.parametrize("file", sorted(CHECKOUT.glob("config/**/*.yaml")), ids=lambda path: path.stem)
def test_every_study_survives_the_form_that_a_crate_has_it_in(file):
    declared = load_study(file)
    again = parse_study(json.loads(json.dumps(as_declared(declared))), stored=True)
    assert again.sha256 == declared.sha256
    assert [plan.digest for plan in again.sessions()] == [plan.digest for plan in declared.sessions()]


# -- the same data, the same bytes ----------------------------------------------------------------------


def test_the_same_files_give_the_same_bytes_wherever_and_whenever(study, packed, tmp_path):
    elsewhere = tmp_path / "another place"
    shutil.copytree(study.root, elsewhere)
    for path in elsewhere.rglob("*"):
        os.utime(path, (2_000_000_000, 2_000_000_000))
    again = build_crate(elsewhere, load_study(elsewhere / "config" / "study.yaml"), tmp_path / "x" / "small.crate.zip")
    assert again.path.read_bytes() == packed.path.read_bytes()
    assert again.sha256 == packed.sha256
    assert sorted(path.name for path in again.path.parent.iterdir()) == ["small.crate.zip"]


# -- no secret ----------------------------------------------------------------------

SECRET = 'Wj7/kQ"x+29 z&'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps({"key": SECRET}),
        f"https://host/?key={quote(SECRET, safe='')}",
        html.escape(SECRET),
        str(markupsafe.escape(SECRET)),
        base64.b64encode(SECRET.encode()).decode(),
    ],
    ids=["plain", "json", "address", "html", "template", "base64"],
)
@pytest.mark.parametrize("where", ["raw", "report"])
@pytest.mark.fault(25)
def test_a_secret_that_the_study_names_is_never_packed(own_study, monkeypatch, written, where):
    monkeypatch.setenv("CRATE_TEST_SECRET", SECRET)
    first = pack(own_study)
    assert first.not_looked_for == ("CRATE_TEST_KEY",)
    before = first.path.read_bytes()
    if where == "raw":
        case = own_study.ok.record.case
        own_study.add(case, 4, cause=written, status="failed")
        own_study.index()
        name = "data/raw/small/one/file_size/"
    else:
        name = "reports/small/index.html"
        (own_study.root / name).write_text(f"<title>{written}</title>")
    with pytest.raises(SecretFound, match=f"{name}.*CRATE_TEST_SECRET") as caught:
        pack(own_study, name)
    assert SECRET not in str(caught.value) and written not in str(caught.value)
    assert first.path.read_bytes() == before, "the earlier crate is still there, whole"
    assert [path.name for path in first.path.parent.iterdir() if path.name.startswith(".")] == []


def test_a_secret_is_found_on_the_border_of_two_pieces():
    secrets = Secrets.of({"secret_key_env": "S"}, {"S": "correct horse"})
    for cut in range(1, len("correct horse")):
        content = [b"x" * 10_000 + b"correct horse"[:cut], b"correct horse"[cut:] + b"y" * 10_000]
        with pytest.raises(SecretFound):
            list(secrets.refuse("file", content))
    content = [b"correct", b" mare"]
    assert list(secrets.refuse("file", content)) == content


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("after", ["", "\n", "@host"])
@pytest.mark.parametrize("before", ["", "u:", "me:", "user:", "admin:"])
def test_a_secret_is_found_in_base64_together_with_what_is_around_it(before, after, encode):
    """As in a header `Authorization: Basic`, which holds the user's name and the password."""
    secret = "Wj7?kQ>x+29ÿ"
    encoded = encode(f"{before}{secret}{after}".encode())
    with pytest.raises(SecretFound):
        list(Secrets.of({"secret_key_env": "S"}, {"S": secret}).refuse("file", [b"Basic " + encoded]))
    other = encode(f"{before}{secret[::-1]}{after}".encode())
    assert list(Secrets.of({"secret_key_env": "S"}, {"S": secret}).refuse("file", [other])) == [other]


def test_variables_are_found_wherever_a_study_names_them():
    declared = {
        "a": [{"secret_key_env": "ONE"}], "secret_env": {"password": "TWO"}, "header": "Bearer {{env.THREE}}",
        "env": {"PATH": "/bin"}, "bearer_env": None,
    }  # fmt: skip
    environment = {"ONE": "first-secret", "TWO": "short", "THREE": "third-secret", "PATH": "/usr/bin"}
    secrets = Secrets.of(declared, environment)
    assert {name for name, _ in secrets.values} == {"ONE", "THREE"}
    assert secrets.unknown == ("TWO",), "too short to be looked for, and said so"


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA", "key AKIAIOSFODNN7EXAMPLE.",
        "GET /x?X-Amz-Date=1&X-Amz-Signature=0123456789abcdef0123456789abcdef", "ghp_" + "a1B2" * 9,
        "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "postgres://user:hunter2@db.example/x",
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_refused_until_somebody_looked_at_it(own_study, text):
    name = "reports/small/index.html"
    (own_study.root / name).write_text(text)
    with pytest.raises(SecretFound, match=f"{name}: holds what looks like .* `benchstudy crate --accept {name}`"):
        pack(own_study)
    assert pack(own_study, name).trials == 7


@pytest.mark.parametrize("key", ["ASIA" + "A1" * 8, *(f"gh{of}_" + "a1B2" * 9 for of in "ousr"), "xoxb-0123456789"])
def test_keys_of_every_kind_are_found(key):
    with pytest.raises(SecretFound, match="x: holds what looks like "):
        list(Secrets((), ()).refuse("x", [f'{{"key": "{key}"}}'.encode()]))


@pytest.mark.parametrize(
    "text",
    [
        "https://user@host/x", "https://host:8080/a@b", "http://{{bind}}:{{port.http}}/@x", "s3://bucket/key:1@2",
        "AKIAtoo-short",
    ],
)  # fmt: skip
def test_what_only_resembles_one_is_not(text):
    assert b"".join(Secrets((), ()).refuse("x", [text.encode()])) == text.encode()


# -- every file is checked ----------------------------------------------------------------------


def flip(path: Path) -> None:
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_verify_is_content_with_what_was_stored_and_counts_it(study, packed, monkeypatch, capsys):
    monkeypatch.chdir(study.root)
    assert main(["verify", "config/study.yaml"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "small" and told["altered"] == 0 and told["files"] > packed.files
    assert main(["verify", str(packed.path)]) == 0
    capsys.readouterr()
    assert main(["verify", "config/study.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**told, "differences": []}


@pytest.mark.parametrize("file", ["stdout", "trial.json", "files/answer of it.json"])
def test_one_flipped_bit_is_named_and_nothing_is_packed(own_study, file, monkeypatch, capsys):
    name = at(own_study, "ok", file)
    flip(own_study.root / name)
    assert check_study(own_study.root, own_study.study).lines == [
        f"{name}: altered: its SHA-256 differs from the one in SHA256SUMS"
    ]
    with pytest.raises(CorruptTrial, match=re.escape(file)):
        pack(own_study)
    assert not paths.crate(own_study.root, own_study.study.study).exists()
    monkeypatch.chdir(own_study.root)
    assert main(["verify", "config/study.yaml"]) == 1
    assert name in capsys.readouterr().err


def test_a_sum_that_was_altered_with_its_file_is_named_because_session_json_has_it_too(own_study):
    folder = own_study.ok.folder
    (folder / "stdout").chmod(0o644)
    (folder / "stdout").write_text("better\n")
    (folder / "SHA256SUMS").chmod(0o644)
    told = subprocess.run(["sha256sum", "stdout"], cwd=folder, capture_output=True, text=True, check=True).stdout
    sums = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text(re.sub(r"(?m)^.*  stdout\n", told, sums))
    name = at(own_study, "ok", "stdout")
    assert check_study(own_study.root, own_study.study).lines == [
        f"{name}: SHA256SUMS and session.json do not agree on it"
    ]
    with pytest.raises(BenchstudyError, match=r"session\.json"):
        pack(own_study)


def test_what_is_missing_or_was_added_is_named(own_study):
    for trial in ("ok", "failed", "timeout"):
        for folder in (getattr(own_study, trial).folder, getattr(own_study, trial).folder / "files"):
            folder.chmod(0o755)
    (own_study.ok.folder / "stderr").unlink()
    (own_study.ok.folder / "nicer.txt").write_text("who put this here?")
    (own_study.failed.folder / "SHA256SUMS").unlink()
    shutil.rmtree(own_study.timeout.folder)
    flip(own_study.store.folder / "sessions" / SESSION[:8] / "session.json")
    assert sorted(check_study(own_study.root, own_study.study).lines) == sorted(
        [
            f"{at(own_study, 'ok', 'nicer.txt')}: added: SHA256SUMS does not list it",
            f"{at(own_study, 'ok', 'stderr')}: missing",
            f"{at(own_study, 'failed', '')[:-1]}: its SHA256SUMS is missing",
            f"{at(own_study, 'timeout', '')[:-1]}: session.json lists this trial, and its folder is gone",
            f"data/raw/small/one/file_size/sessions/{SESSION[:8]}/session.json: "
            "altered: its SHA-256 differs from the one in SHA256SUMS",
        ]
    )


@pytest.mark.parametrize("damage", [flip, Path.unlink])
@pytest.mark.parametrize("file", ["stdout", "trial.json"])
def test_a_damaged_trial_that_was_discarded_is_not_packed(own_study, file, damage):
    own_study.ok.folder.chmod(0o755)
    damage(own_study.root / at(own_study, "ok", file))
    own_study.store.discard(own_study.ok, "its disk was failing")
    own_study.index()
    packed = pack(own_study)
    with zipfile.ZipFile(packed.path) as archive:
        assert not [name for name in archive.namelist() if own_study.ok.folder.name in name]
        assert f"data/raw/small/one/file_size/discards/{own_study.ok.short}.json" in archive.namelist()
    assert check_crate(packed.path).lines == []
    assert len(check_study(own_study.root, own_study.study).lines) == 1, "the file itself is still no evidence"


def test_a_trial_that_was_damaged_after_it_was_discarded_is_not_missed_in_the_crate(own_study):
    own_study.store.discard(own_study.ok, "its disk was failing")
    own_study.index()
    own_study.ok.folder.chmod(0o755)
    flip(own_study.root / at(own_study, "ok", "stdout"))
    assert check_crate(pack(own_study).path).lines == [], "session.json lists it, and the crate leaves it out"


def test_a_backslash_in_a_name_that_an_earlier_version_sealed_is_told_with_the_way_on(own_study):
    case = own_study.ok.folder.parent
    case.chmod(0o755)
    own_study.ok.folder.chmod(0o755)
    sums, name = own_study.ok.folder / "SHA256SUMS", own_study.ok.folder / "std\\out"
    (own_study.ok.folder / "stdout").rename(name)
    sums.chmod(0o644)
    sums.write_text(sums.read_text().replace("  stdout\n", "  std\\out\n"))
    own_study.index()
    with pytest.raises(BenchstudyError, match="cannot list this name; discard its trial, and then rename the file"):
        pack(own_study)
    own_study.store.discard(own_study.ok, "no crate can hold its files")
    name.rename(own_study.ok.folder / "stdout")
    own_study.index()
    assert check_crate(pack(own_study).path).lines == []


def test_a_crate_is_only_made_of_what_reports_were_made_of(own_study):
    own_study.add(own_study.ok.record.case, 9)
    with pytest.raises(BenchstudyError, match="is on disk, but not listed"):
        pack(own_study)
    (own_study.root / "reports" / "small" / "index.html").unlink()
    own_study.index()
    with pytest.raises(BenchstudyError, match="there are no reports yet; run `snakemake"):
        pack(own_study)
    own_study.store.index.unlink()
    with pytest.raises(BenchstudyError, match=r"one: .*session\.json is missing or damaged; run `snakemake"):
        pack(own_study)


def test_sha256sum_itself_is_content_with_an_unpacked_crate(packed, tmp_path):
    with zipfile.ZipFile(packed.path) as archive:
        archive.extractall(tmp_path)
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True)
    assert check_crate(tmp_path).lines == []
    (tmp_path / "data" / "tidy").mkdir()
    (tmp_path / "data" / "tidy" / "x.parquet").touch()
    assert check_crate(tmp_path).lines == [], "what using it leaves is no part of it"
    (tmp_path / "data" / "raw" / "x").touch()
    flip(tmp_path / "reports" / "small" / "index.html")
    assert check_crate(tmp_path).lines == [
        "data/raw/x: added: SHA256SUMS does not list it",
        "reports/small/index.html: altered: its SHA-256 differs from the one in SHA256SUMS",
    ]


def test_whatever_was_done_to_a_crate_is_named(study, packed, tmp_path, capsys):
    with zipfile.ZipFile(packed.path) as archive:
        sums = archive.read("SHA256SUMS").decode()
    ok, failed = at(study, "ok", "stdout"), at(study, "failed", "trial.json")
    digest = {line[66:]: line[:64] for line in sums.splitlines()}
    for changes, expected in [
        ({ok: b"better\n"}, [f"{ok}: altered: its SHA-256 differs from the one in SHA256SUMS"]),
        ({failed: None}, [f"{failed}: missing"]),
        ({"reports/small/new.html": b"x"}, ["reports/small/new.html: added: SHA256SUMS does not list it"]),
        (
            {"SHA256SUMS": sums.replace(f"{digest[ok]}  {ok}\n", f"{'0' * 64}  {ok}\n").encode()},
            [
                f"{ok}: altered: its SHA-256 differs from the one in SHA256SUMS",
                f"{ok}: SHA256SUMS and ro-crate-metadata.json do not agree on it",
                f"{ok}: SHA256SUMS of the crate and SHA256SUMS of the folder do not agree on it",
            ],
        ),
    ]:
        altered = rewrite(packed.path, tmp_path / "altered.zip", changes)
        assert check_crate(altered).lines == expected
        assert main(["verify", str(altered)]) == 1
        assert all(line in capsys.readouterr().err for line in expected[:1])


def test_a_study_without_an_index_is_verified_with_a_note_on_what_cannot_be_found(own_study, monkeypatch, capsys):
    monkeypatch.chdir(own_study.root)
    assert main(["verify", str(own_study.file)]) == 0
    assert "note: " not in capsys.readouterr().err
    shutil.rmtree(own_study.failed.folder)
    own_study.store.index.unlink()
    assert main(["verify", str(own_study.file)]) == 0, "it can be made again"
    index = own_study.store.index.relative_to(own_study.root)
    assert f"note: {index}: missing, so nothing says whether a trial was removed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("forgery", "expected"),
    [
        ("altered", ["{ok}/stdout: SHA256SUMS and session.json do not agree on it"]),
        ("left out", ["{failed}: session.json lists this trial, and its folder is gone"]),
        ("copied", ["{copy}: is a copy of, or was moved from, {place}: move it back, or remove it if that exists"]),
        ("discard left out", ["{store}/discards/{discarded}.json: missing"]),
        ("index left out", ["{store}/session.json: missing or damaged, so nothing lists the trials beside it"]),
    ],
)
def test_a_forgery_with_its_sums_and_its_description_is_found_in_session_json(
    study, packed, tmp_path, forgery, expected
):  # fmt: skip
    with zipfile.ZipFile(packed.path) as archive:
        archive.extractall(tmp_path)
    ours = (study.store.folder, study.ok.folder, study.failed.folder)
    store, ok, failed = (tmp_path / path.relative_to(study.root) for path in ours)
    discarded = study.discarded.record.uuid[:8]
    copy = ok.with_name(f"9{ok.name}")
    if forgery == "altered":
        flip(ok / "stdout")
        seal(ok, durable=False)
    elif forgery == "left out":
        shutil.rmtree(failed)
    elif forgery == "copied":
        shutil.copytree(ok, copy)
    else:
        gone = "session.json" if forgery == "index left out" else f"discards/{discarded}.json"
        (store / gone).unlink()
    sum_again(tmp_path)
    names = {
        "ok": ok.relative_to(tmp_path), "failed": failed.relative_to(tmp_path), "store": store.relative_to(tmp_path),
        "copy": copy.relative_to(tmp_path), "place": ok.relative_to(store), "discarded": discarded,
    }  # fmt: skip
    assert check_crate(tmp_path).lines == [line.format(**names) for line in expected]


def sum_again(crate: Path) -> None:
    """Makes the crate's sums and its description agree with its files, as somebody would who forges it."""
    description = crate / "ro-crate-metadata.json"
    graph = json.loads(description.read_text())
    entities = []
    for entity in graph["@graph"]:
        path = crate / unquote(entity["@id"])
        if entity["@type"] != "File":
            entities.append(entity)
        elif path.is_file():
            entities.append({**entity, "sha256": sha256_of(path)})
    description.write_text(json.dumps({**graph, "@graph": entities}))
    files = [path for path in sorted(crate.rglob("*")) if path.is_file() and path != crate / "SHA256SUMS"]
    lines = [f"{sha256_of(path)}  {path.relative_to(crate).as_posix()}\n" for path in files]
    (crate / "SHA256SUMS").write_text("".join(lines))


@pytest.mark.parametrize("which", ["lock", "sums of a trial", "index"])
def test_a_crate_that_was_damaged_on_its_way_is_named_file_by_file(study, packed, tmp_path, which):
    name = {
        "lock": "requirements.lock",
        "sums of a trial": at(study, "ok", "SHA256SUMS"),
        "index": study.store.index.relative_to(study.root).as_posix(),
    }[which]
    with zipfile.ZipFile(packed.path) as archive:
        entry = archive.getinfo(name)
    content = bytearray(packed.path.read_bytes())
    content[entry.header_offset + 30 + len(name) + entry.compress_size // 2] ^= 0xFF
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(content)
    (line,) = check_crate(damaged).lines
    assert line.startswith(f"{name}: cannot be read") or "altered" in line


@pytest.mark.parametrize("name", ["crate.zip", "crate.zip.part"])
@pytest.mark.parametrize("left", [2, 0.5, -3000, -10, -1])
def test_a_crate_that_was_cut_off_is_said_to_be_so(packed, tmp_path, capsys, name: str, left: float):
    content, cut = packed.path.read_bytes(), tmp_path / name
    cut.write_bytes(content[: int(len(content) * left) if 0 < left < 1 else int(left)])
    for command in (["verify", str(cut)], ["reproduce", str(cut), "--into", str(tmp_path / "again")]):
        assert main(command) == 1
        said = capsys.readouterr().err
        size = f"{cut.stat().st_size:,} B"
        assert f"{cut}: is not whole: it begins as a zip file, and its end is missing after {size}; copy, d" in said
    assert not (tmp_path / "again").exists()


def test_an_empty_crate_and_one_that_is_none_are_named(tmp_path, capsys):
    (tmp_path / "empty.zip").write_bytes(b"")
    (tmp_path / "page.zip").write_text("<html>Log in</html>")
    assert [main(["verify", str(tmp_path / f"{name}.zip")]) for name in ("empty", "page")] == [1, 1]
    empty, page = capsys.readouterr().err.splitlines()
    assert "empty.zip: is empty; copy, download" in empty and "neither a zip file nor a folder" in page


def test_a_study_is_verified_although_its_crate_was_cut_off(own_study, capsys, monkeypatch):
    packed, cut = paths.crate(own_study.root, "small"), pack(own_study).path.read_bytes()[:-10]
    packed.parent.mkdir(exist_ok=True)
    packed.write_bytes(cut)
    output = next((own_study.root / "data/raw/small").rglob("trial.json"))
    output.write_bytes(output.read_bytes() + b" ")
    monkeypatch.chdir(own_study.root)
    assert main(["verify", "config/study.yaml", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["differences"]
    assert any("altered" in line and output.name in line for line in told)
    assert any(line.startswith("reports/small.crate.zip: is not whole") for line in told)


class FailingDisk(io.BytesIO):
    """A file of which a number of reads succeed."""

    def __init__(self, content: bytes, reads: int):
        super().__init__(content)
        self.left = reads

    def read(self, size: int | None = -1) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


@pytest.mark.parametrize("reads", [None, 0, 1, 2])
def test_a_crate_on_a_disk_that_fails_is_not_called_something_else(packed, monkeypatch, reads: int | None):
    """From opening it on, its end, or its directory cannot be read, and nor can anything afterwards."""

    def opened(path: Path, mode: str = "rb") -> FailingDisk:
        if reads is None:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return FailingDisk(Path(path).read_bytes(), reads)

    monkeypatch.setattr(zipfile, "io", SimpleNamespace(**vars(io) | {"open": opened}))
    monkeypatch.setattr(zipfile, "open", lambda path, mode: FailingDisk(b"", 0), raising=False)
    with pytest.raises(OSError, match="Input/output error"):
        check_crate(packed.path)


@pytest.mark.parametrize(
    "name",
    [
        "../outside", "/etc/outside", "a/../../outside", "data\\raw", "link", "study.json", "./study.json", "src//x",
        "a\x1b[2J", "a\nb",
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.fault(39)
def test_names_that_lead_out_of_a_crate_are_refused(packed, tmp_path, name):
    hostile = tmp_path / "hostile.zip"
    shutil.copyfile(packed.path, hostile)
    with zipfile.ZipFile(hostile, "a") as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o120777 if name == "link" else 0o100644) << 16
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(BenchstudyError, match="not opened"):
        check_crate(hostile)


@pytest.mark.fault(39)
def test_verify_prints_no_name_that_a_terminal_obeys_or_that_looks_like_a_line_of_its_own(packed, tmp_path, capsys):
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(packed.path) as archive:
        archive.extractall(unpacked)
    (unpacked / "data" / "raw" / 'x\x1b[2J\n{"altered": 0}').touch()
    with (unpacked / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  y\x1b]0;title\x07\n")
    assert main(["verify", str(unpacked)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all(line.isprintable() for line in said)


def test_what_was_added_to_an_unpacked_crate_is_in_no_reproduction_of_it(own_study, tmp_path, monkeypatch):
    """Using it leaves files, and only those that it lists were checked."""
    pack(own_study)
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(paths.crate(own_study.root, "small")) as archive:
        archive.extractall(unpacked)
    added = ("data/provision/small/one/command.json", "data/published/own.yaml", "reports/small/own.html", "src/own.py")
    for name in added:
        (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).write_text("{}")
    monkeypatch.setattr(reproduce, "_make_reports", lambda into, cores: None)
    made = reproduce.reproduce(unpacked, own_study.root, tmp_path / "into")
    assert (made.folder / "data" / "raw" / "small").is_dir() and made.trials == 7
    assert not [name for name in added if (made.folder / name).exists()]
    assert not {"src/own.py (not here)", "own.html"} & {*made.code, *made.others_differ}


@pytest.mark.fault(39)
def test_a_name_that_is_a_file_and_a_folder_is_refused(packed, tmp_path):
    hostile = tmp_path / "hostile.zip"
    shutil.copyfile(packed.path, hostile)
    with zipfile.ZipFile(hostile, "a") as archive:
        archive.writestr("data/raw/small/one", "x")
    with pytest.raises(BenchstudyError, match=r"hostile\.zip: 'data/raw/small/one' is both a file and a folder"):
        check_crate(hostile)


@pytest.mark.fault(39)
@pytest.mark.parametrize(("size", "words"), [(300 << 20, "too many for this file"), (3 << 30, "would become 3,2")])
def test_a_crate_that_would_fill_memory_or_disk_is_refused(tmp_path, size, words):
    hostile = tmp_path / "bomb.zip"
    with zipfile.ZipFile(hostile, "w") as archive:
        archive.writestr("ro-crate-metadata.json", "{}")
        archive.writestr("SHA256SUMS", "")
        archive.getinfo("SHA256SUMS").file_size = size  # what its directory says, on which reading is based
    with pytest.raises(BenchstudyError, match=words):
        check_crate(hostile)


def test_what_is_no_crate_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("x", "y")
    for path in (tmp_path / "some.zip", tmp_path):
        with pytest.raises(BenchstudyError, match="not a crate of benchstudy"):
            check_crate(path)


# -- tables, cell by cell ----------------------------------------------------------------------


def test_tables_are_compared_cell_by_cell():
    was = {
        "a.csv": b"Size,disk\n1MB,5 ms\n2MB,9 ms\n",
        "b.csv": b"x\n1\n",
        "c.csv": b"Size,disk\n1MB,5 ms\n",
        "gone.csv": b"x\n",
        "quoted.csv": b"a,b\n1,2\n",
    }
    now = {
        "a.csv": b"Size,disk\n1MB,5 ms\n2MB,8 ms\n",
        "b.csv": b"x\n1\n2\n",
        "c.csv": b"Size,bucket,disk\n1MB,5 ms,5 ms\n",
        "new.csv": b"x\n",
        "quoted.csv": b'a,b\n"1",2\n',
    }
    assert [str(difference) for difference in tables.differences(was, now)] == [
        "a.csv, row 2 (2MB), disk: '9 ms' in the crate, '8 ms' now",
        "b.csv: 1 row in the crate, 2 rows now",
        "c.csv, heading: 'Size', 'disk' in the crate, 'Size', 'bucket', 'disk' now",
        "gone.csv: a table in the crate, none now",
        "new.csv: no table in the crate, one now",
        "quoted.csv: other bytes in the crate, the same cells now",
    ]
    assert list(tables.differences(was, was)) == []


# -- authors and licence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("orcid", ["0000-0002-1825-0097", "https://orcid.org/0000-0002-1694-233X"])
def test_authors_are_named_by_a_checked_identifier(study, orcid):
    data = yaml.safe_load(study.file.read_text()) | {"authors": [{"name": "Ada", "orcid": orcid}]}
    assert parse_study(data).authors[0].orcid == orcid[-19:]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"authors": [{"name": "Ada", "orcid": "0000-0002-1825-0098"}]}, r"authors\.0\.orcid: .*is not an ORCID iD"),
        ({"authors": [{"name": ""}]}, r"authors\.0\.name"),
        ({"license": "do what you want"}, "license: .*SPDX identifier such as CC-BY-4.0"),
        ({"license": "CC-BY-9.0"}, "license: 'CC-BY-9.0': give an SPDX identifier"),
        ({"license": "MIT OR Apache-2.0"}, "license: .*give an SPDX identifier"),
    ],
)
def test_wrong_authors_and_licences_are_refused_by_name(study, change, named):
    with pytest.raises(StudyError, match=named):
        parse_study(yaml.safe_load(study.file.read_text()) | change)


def test_authors_and_licence_make_no_trial_look_post_hoc(study):
    data = yaml.safe_load(study.file.read_text())
    assert parse_study({**data, "authors": [], "license": ""}).sha256 == study.study.sha256
    assert parse_study({**data, "license": "cc-by-4.0"}).license == "CC-BY-4.0", "as SPDX spells it"
