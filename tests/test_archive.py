"""Raw files in object storage: two real S3 servers, of which one refuses to overwrite and the other does not.

The pushed store is that of an older version, `tests/data/store-b9a61cf`.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import IO, Any

import botocore.session
import polars as pl
import pytest
from botocore.exceptions import ClientError
from conftest import as_project
from pydantic import ValidationError
from s3_server import ACCESS, SECRET, Proxy, S3Server, VersityServer
from stored_study import STUDY as STORED
from stored_study import StoredStudy
from test_old_store import STORES, different_cells, tables
from waiting import until

from benchstudy.archive.bucket import Bucket, DamagedObject, Stored, side_by_side
from benchstudy.archive.manifests import Entry, Manifest
from benchstudy.archive.packs import unpack
from benchstudy.archive.pull import pull
from benchstudy.archive.push import push
from benchstudy.commands.cli import main
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.checked import SUMS
from benchstudy.measuring.raw import NOT_HELD, TrialStore, index_problem
from benchstudy.measuring.schedule import missing_trials
from benchstudy.measuring.sealed import IN_ARCHIVE, look
from benchstudy.measuring.sessionindex import is_held, write_index_only
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.study import Study
from benchstudy.model.studyfile import load_study, parse_study

STUDY = ("--study", "study.yaml")
SERVERS = {"rclone": S3Server, "versitygw": VersityServer}
_TABLES: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class Clone:
    """A project with a study, with raw files or without."""

    root: Path

    @property
    def raw(self) -> Path:
        return self.root / "data" / "raw"

    @cached_property
    def study(self) -> Study:
        return load_study(self.root / "study.yaml")

    def run(self, *words: str, status: int = 0) -> Any:
        """A command's JSON output; its error if it is expected to end with another status than 0."""
        out, err = io.StringIO(), io.StringIO()
        with chdir(self.root), redirect_stdout(out), redirect_stderr(err):
            ended = main([*words, "--json"])
        assert ended == status, err.getvalue()
        return json.loads(out.getvalue()) if out.getvalue() else err.getvalue()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchstudy.commands.cli", *words]
        return subprocess.Popen(command, cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def sealed(self) -> list[Path]:
        """Folders of trials, sessions and looks."""
        return sorted(sums.parent for sums in self.raw.glob(f"*/*/*/*/[!.]*/{SUMS}"))

    def files(self) -> dict[str, bytes]:
        found = (p for p in self.raw.rglob("*") if p.is_file() and p.name not in (".lock", IN_ARCHIVE))
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in found}

    def tables(self) -> dict[str, Any]:
        """Made once from the same raw files, because several clones pull the same."""
        digest = hashlib.sha256(repr(sorted(self.files().items())).encode()).hexdigest()
        if digest not in _TABLES:
            shutil.rmtree(self.root / "tidy-now", ignore_errors=True)
            for plan in self.study.sessions():
                tidy_family(self.root, [plan], self.root / "tidy-now" / plan.family_name)
            _TABLES[digest] = tables(self.root / "tidy-now")
        return _TABLES[digest]

    def index(self) -> None:
        """Write each session.json from the trials that are here."""
        for plan, folder in zip(self.study.sessions(), self.study.stores(self.root), strict=True):
            store = TrialStore(folder)
            write_index_only(plan, store, store.trials())


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """Where trials were measured."""
    root = as_project(tmp_path_factory.mktemp("origin") / "project")
    with tarfile.open(STORES / "embedded.tar.xz") as archive:
        archive.extractall(root)  # no filter, because the Python of Debian 12 has none
    clone = Clone(root)
    clone.index()
    return clone


@pytest.fixture(scope="module")
def tables_of_origin(origin: Clone) -> dict[str, Any]:
    return origin.tables()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture(scope="module", autouse=True)
def one_loader() -> Iterator[None]:
    """Commands that run in this process, so that botocore reads its S3 data once, not once per client."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    yield server
    server.stop()


@dataclass(frozen=True)
class Archive:
    """A prefix of its own on a server."""

    server: S3Server
    prefix: str

    @property
    def words(self) -> list[str]:
        return self.at(self.server.url)

    def at(self, url: str) -> list[str]:
        return [f"s3://data/{self.prefix}", "--endpoint-url", url]

    def keys(self, below: str) -> list[str]:
        keys = self.server.keys()
        return [key for key in keys if key.startswith(f"{self.prefix}/{below}/")]

    def file(self, key: str) -> Path:
        """Where both servers keep an object on disk."""
        return self.server.folder / "data" / key


@pytest.fixture
def archive(server: S3Server, request: pytest.FixtureRequest) -> Archive:
    return Archive(server, f"raw/{request.node.originalname}")


@pytest.fixture
def clone(origin: Clone, tmp_path: Path) -> Clone:
    """A project with the same study, without raw files."""
    return copy(origin, tmp_path / "clone", raw=False)


def copy(of: Clone, root: Path, *, raw: bool = True) -> Clone:
    as_project(root)
    shutil.copy(of.root / "study.yaml", root)
    if raw:
        shutil.copytree(of.raw, root / "data" / "raw")
        for folder in root.rglob("*"):
            folder.chmod(0o755)
    return Clone(root)


def test_a_clone_makes_the_same_tables_of_what_was_pushed(origin, clone, archive, tables_of_origin):
    folders = origin.sealed()
    planned = origin.run("push", *archive.words, *STUDY, "--dry-run")
    assert planned["sent"] == len(folders) and archive.server.keys() == ["benchstudy/sentinel"]
    pushed = origin.run("push", *archive.words, *STUDY)
    assert (pushed["sent"], pushed["there"], pushed["bytes"]) == (len(folders), 0, planned["bytes"])
    assert pushed["conditional"] is pushed["compares"] is isinstance(archive.server, VersityServer)
    assert len(archive.keys("sealed")) == len(folders), "one object a folder"
    again = origin.run("push", *archive.words, *STUDY)
    assert (again["sent"], again["there"], again["manifests"]) == (0, len(folders), [])

    planned = clone.run("pull", *archive.words, *STUDY, "--dry-run")
    assert planned["fetched"] == len(folders) and not clone.raw.exists()
    pulled = clone.run("pull", *archive.words, *STUDY)
    assert (pulled["fetched"], pulled["bytes"]) == (len(folders), planned["bytes"])
    had = origin.files()
    assert clone.files().items() < had.items() and len(had) - len(clone.files()) == pulled["in_archive"]
    assert pulled["bytes"] < pushed["bytes"]
    now = clone.tables()
    assert now.keys() == tables_of_origin.keys()
    assert [cell for name in now for cell in different_cells(tables_of_origin[name], now[name])] == []
    verified = clone.run("verify", "study.yaml")
    assert (verified["altered"], verified["in_archive"]) == (0, pulled["in_archive"])
    assert "run `benchstudy pull --all`" in clone.run("crate", "study.yaml", status=1)

    whole = clone.run("pull", *archive.words, *STUDY, "--all")
    assert 0 < whole["fetched"] < len(folders) and whole["in_archive"] == 0
    assert clone.files() == had
    assert clone.run("verify", "study.yaml")["in_archive"] == 0
    assert {path.stat().st_mode & 0o222 for folder in clone.sealed() for path in (folder, *folder.rglob("*"))} == {0}
    assert clone.run("pull", *archive.words, *STUDY, "--all")["sessions"] == []
    assert clone.run("push", *archive.words, *STUDY)["manifests"] == [], "it has nothing else than the first"


def test_the_server_is_asked_for_checksums_and_else_everything_is_read(origin, archive):
    origin.run("push", *archive.words, *STUDY)
    knows = isinstance(archive.server, VersityServer)
    told = origin.run("archive", "verify", *archive.words, status=0 if knows else 1)
    assert told["untold"] == (0 if knows else told["objects"]) and told["differences"] == []
    read = origin.run("archive", "verify", *archive.words, "--read")
    assert (read["untold"], read["objects"], read["differences"]) == (0, len(origin.sealed()), [])

    altered, gone, cut = archive.keys("sealed")[:3]
    flip(archive.file(altered))
    archive.server.client.delete_object(Bucket="data", Key=gone)
    os.truncate(archive.file(cut), 512)
    found = origin.run("archive", "verify", *archive.words, "--read", status=1)["differences"]
    assert [line.split(":")[2] for line in found[:2]] == [" altered", " missing"] and cut in found[2]


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_a_flipped_byte_on_the_server_comes_into_no_clone(origin, clone, archive, tables_of_origin):
    origin.run("push", *archive.words, *STUDY)
    folder = next(f for f in origin.sealed() if json.loads((f / "trial.json").read_text())["status"] == "ok")
    key = next(
        k for k in archive.keys("sealed") if (folder / "trial.json").read_bytes() in archive.file(k).read_bytes()
    )
    flip(archive.file(key))
    said = clone.run("pull", *archive.words, *STUDY, status=1)
    assert f"s3://data/{key}: altered: its SHA-256 does not match its name" in said
    here = clone.root / folder.relative_to(origin.root)
    assert not here.exists() and not (here.parents[1] / "session.json").exists(), "no tables of a part"
    # Nothing is overwritten, so only the store's own tools can make room for the whole trial.
    assert origin.run("push", *archive.words, *STUDY)["sent"] == 0
    archive.server.client.delete_object(Bucket="data", Key=key)
    assert origin.run("push", *archive.words, *STUDY)["sent"] == 1
    clone.run("pull", *archive.words, *STUDY)
    assert clone.tables().keys() == tables_of_origin.keys()


@pytest.mark.server
@pytest.mark.build
def test_an_object_that_sends_more_than_it_should_is_damaged_and_not_kept(archive):
    bucket = Bucket(archive.words[0], archive.server.url)
    content = os.urandom(5_000_000)
    sha256 = hashlib.sha256(content).hexdigest()
    bucket.put_if_absent("object", content, sha256)
    assert bucket.get("object", io.BytesIO(), len(content)) == sha256
    into = io.BytesIO()
    with pytest.raises(DamagedObject, match="object: altered: it has more than its 2000000 B"):
        bucket.get("object", into, 2_000_000)
    assert into.tell() <= 2_000_000


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(content)


def test_two_controllers_push_at_once_and_nothing_is_lost(origin, clone, archive, tmp_path):
    halves = [copy(origin, tmp_path / name) for name in ("even", "odd")]
    for place, half in enumerate(halves):
        for trial in [folder for folder in half.sealed() if (folder / "trial.json").is_file()][place::3]:
            shutil.rmtree(trial)
        half.index()
    pushing = [half.start("push", *archive.words, *STUDY) for half in halves]
    assert [(process.communicate()[1], process.returncode)[1] for process in pushing] == [0, 0]
    pulled = clone.run("pull", *archive.words, *STUDY, "--all")
    assert {f.relative_to(clone.root) for f in clone.sealed()} == {
        f.relative_to(half.root) for half in halves for f in half.sealed()
    }
    assert len(archive.keys("sessions")) == 2 * len(pulled["sessions"])
    assert clone.run("verify", "study.yaml")["altered"] == 0


@pytest.mark.parametrize("server", ["rclone"], indirect=True)
def test_a_killed_push_and_a_killed_pull_go_on_where_they_were(origin, clone, archive):
    with Proxy(archive.server, bytes_per_s=2e5) as proxy:
        push = origin.start("push", *archive.at(proxy.url), *STUDY)
        until(lambda: len(archive.keys("sealed")) > 10)
        push.send_signal(signal.SIGKILL)
        push.communicate()
    left = len(archive.keys("sealed"))
    assert 10 < left < len(origin.sealed()), "it was killed too late to show anything"
    told = origin.run("push", *archive.words, *STUDY)
    assert told["there"] >= left and told["sent"] + told["there"] == len(origin.sealed())

    pull = clone.start("pull", *archive.words, *STUDY)
    until(lambda: clone.sealed())
    pull.send_signal(signal.SIGKILL)
    pull.communicate()
    left = len(clone.sealed())
    assert left < len(origin.sealed()), "it was killed too late to show anything"
    told = clone.run("pull", *archive.words, *STUDY)
    assert (told["here"], told["fetched"]) == (left, len(origin.sealed()) - left)
    assert clone.run("verify", "study.yaml")["altered"] == 0
    assert list(clone.raw.rglob(".received-*")) == []


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_what_is_discarded_later_reaches_clones_that_pulled_before(origin, clone, archive, tmp_path):
    author = copy(origin, tmp_path / "author")
    author.run("push", *archive.words, *STUDY)
    clone.run("pull", *archive.words, *STUDY)
    author.run("discard", "--status", "failed", "--why", "the disk was being scrubbed", "--study", "study.yaml")
    told = author.run("push", *archive.words, *STUDY)
    assert told["sent"] == 0 and len(told["manifests"]) >= 1
    assert len(archive.keys("sessions")) > len(author.study.sessions()), "what was pushed first stays"
    assert clone.run("pull", *archive.words, *STUDY)["discards"] > 0
    reasons = {
        why for name, table in clone.tables().items() if name.endswith("/trials") for why in table["discarded_why"]
    }
    assert reasons == {None, "the disk was being scrubbed"}
    # The older store never had all trials of its study, so with hosts every session is held.
    assert {index_problem(path) for path in clone.raw.glob("*/*/*/session.json")} == {NOT_HELD}


@pytest.mark.parametrize("server", ["rclone"], indirect=True)
def test_no_altered_trial_is_pushed_and_no_pushed_one_is_replaced(origin, archive, tmp_path):
    author = copy(origin, tmp_path / "author")
    trial = next(f for f in author.sealed() if (f / "trial.json").is_file())
    kept = (trial / "trial.json").read_bytes()
    (trial / "trial.json").write_bytes(kept + b"\n")
    said = author.run("push", *archive.words, *STUDY, status=1)
    assert f"{trial}/trial.json: altered" in said
    families = {plan.family_name for plan in author.study.sessions()}
    assert {key.split("/")[-2] for key in archive.keys("sessions")} == families - {trial.parents[1].name}
    (trial / "trial.json").write_bytes(kept)
    author.run("push", *archive.words, *STUDY)
    (trial / SUMS).write_text((trial / SUMS).read_text() + f"{'0' * 64}  added\n")
    for command in ("push", "pull"):
        assert "was altered after it was sealed" in author.run(command, *archive.words, *STUDY, status=1)


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_a_server_that_refuses_the_condition_is_asked_before_each_object(origin, archive):
    with Proxy(archive.server, refuses="if-none-match") as proxy:
        assert origin.run("push", *archive.at(proxy.url), *STUDY)["conditional"] is False
        asked = {path for method, path, _ in proxy.requests if method == "HEAD"}
        assert asked >= set(proxy.uploads) and len(archive.keys("sealed")) == len(origin.sealed())


@pytest.mark.parametrize("bucket", ["ab", "A-b", "a..b", "abc-", ".abc", "10.0.0.1", "a" * 256, "a b c"])
def test_a_name_that_no_bucket_can_have_is_refused_with_the_rule(bucket, capsys):
    assert main(["push", f"s3://{bucket}/x"]) == 1
    told = f"S3-ADDRESS: s3://{bucket}/x: {bucket!r} cannot be a bucket: a bucket's name has 3 to 63 small letters"
    assert told in capsys.readouterr().err
    for allowed in ("abc", "a.b-c", "of_old_servers", "a" * 255):
        Bucket(f"s3://{allowed}")


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_errors_say_what_to_do_and_no_secret(origin, clone, archive, monkeypatch):
    url = ["--endpoint-url", archive.server.url]
    said = [
        clone.run("pull", "s3://no-such-bucket/x", *url, *STUDY, status=1),
        clone.run("pull", *archive.words, *STUDY, status=1),
        clone.run("push", *archive.words, *STUDY, status=1),
        clone.run("push", "data/x", *url, *STUDY, status=1),
        clone.run("pull", *archive.at("http://127.0.0.1:9"), *STUDY, status=1),
        clone.run("pull", *archive.at(f"http://{ACCESS}:{SECRET}@127.0.0.1:9"), *STUDY, status=1),
    ]
    with Proxy(archive.server, refuses="authorization", code="ExpiredToken") as proxy:
        said.append(clone.run("pull", *archive.at(proxy.url), *STUDY, status=1))
    with Proxy(archive.server, refuses="authorization", code="AccessDenied") as proxy:
        said.append(origin.run("push", *archive.at(proxy.url), *STUDY, status=1))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"not-{SECRET}")
    said.append(clone.run("pull", *archive.words, *STUDY, status=1))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    said.append(clone.run("pull", *archive.words, *STUDY, status=1))
    told = [
        "no such bucket",
        "no archive: nothing was pushed there yet",
        "nothing was measured or imported yet",
        "write s3://BUCKET/PREFIX",
        "no server answers at http://127.0.0.1:9",
        "put them into AWS_*",
        "log in again",
        "s3:PutObject",
        "unknown credentials",
        "no credentials",
    ]
    assert [part for part, text in zip(told, said, strict=True) if part not in text] == [], said
    assert ACCESS not in "".join(said) and SECRET not in "".join(said)


def test_a_pack_with_holes_is_refused_before_it_fills_the_disk(tmp_path):
    packed, small = io.BytesIO(), b"x"
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as members:
        member = tarfile.TarInfo("trial.json")
        member.size = len(small)
        member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "1000000"}
        members.addfile(member, io.BytesIO(small))
    packed.seek(0)
    with pytest.raises(DamagedObject, match=r"'trial\.json' has holes"):
        unpack(packed, tmp_path, "object")
    assert not any(tmp_path.iterdir())


PACKS = {
    "a link to itself": [("stdout", tarfile.SYMTYPE, "stdout")],
    "a link to nothing": [("stdout", tarfile.LNKTYPE, "nope")],
    "a name that is too long": [("x" * 300, tarfile.REGTYPE, "")],
    "a file as a folder": [("a", tarfile.REGTYPE, ""), ("a/b", tarfile.REGTYPE, "")],
    "a name twice": [("a", tarfile.REGTYPE, ""), ("a", tarfile.REGTYPE, "")],
    "a way out": [("../a", tarfile.REGTYPE, "")],
}


@pytest.mark.parametrize("members", PACKS.values(), ids=PACKS)
def test_a_pack_that_nobody_packed_is_damaged_and_ends_no_pull(tmp_path, members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            made.addfile(member)
    packed.seek(0)
    with pytest.raises(DamagedObject, match="object: "):
        unpack(packed, tmp_path, "object")


@pytest.mark.parametrize("claimed", [{"size": 1 << 60}, {"size": -5}, {"head": -1}, {"rest": {"stdout": 1 << 60}}])
def test_a_manifest_claims_no_more_than_an_object_can_have(claimed):
    entry = {"pack": "0" * 64, "size": 10, "sums": "0" * 64, "head": 10}
    Entry.model_validate(entry)
    with pytest.raises(ValidationError):
        Entry.model_validate(entry | claimed)


class RepeatsAnyChecksum:
    """What an S3 client does with a server that honours conditions and compares no checksum."""

    def __init__(self):
        self.objects: dict[str, bytes] = {}

    def put_object(self, Bucket: str, Key: str, Body: Any, **more: Any) -> None:
        if "IfNoneMatch" in more and Key in self.objects:
            raise self._error(412, "PreconditionFailed")
        self.objects[Key] = Body.read()

    def head_object(self, Bucket: str, Key: str, **more: Any) -> dict[str, Any]:
        if Key not in self.objects:
            raise self._error(404, "404")
        return {"ContentLength": len(self.objects[Key]), "LastModified": datetime.now(UTC)}

    @staticmethod
    def _error(status: int, code: str) -> ClientError:
        return ClientError({"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}, "it")


def test_a_server_that_repeats_any_checksum_is_known_as_such_at_every_push(monkeypatch):
    client = RepeatsAnyChecksum()
    monkeypatch.setattr("benchstudy.archive.bucket._client", lambda endpoint: client)
    found = []
    for _ in range(3):
        bucket = Bucket("s3://bucket/prefix")
        bucket.open_to_write()
        found.append((bucket.compares, bucket.is_conditional))
    assert found == [(False, True)] * 3


class InMemory(Bucket):
    """An archive that is no server: objects by name, later ones pushed later."""

    def __init__(self):
        self.url, self.is_conditional, self.compares = "s3://bucket/prefix", True, True
        self.content: dict[str, bytes] = {}
        self._when: dict[str, datetime] = {}

    def open_to_write(self) -> None: ...

    def require(self) -> None: ...

    def objects(self, below: str) -> dict[str, Stored]:
        return {name: Stored(len(self.content[name]), self._when[name]) for name in self.names(below)}

    def put_if_absent(self, name: str, content: IO[bytes] | bytes, sha256: str) -> bool:
        if name in self.content:
            return False
        if not isinstance(content, bytes):
            content.seek(0)
            content = content.read()
        self._when[name] = datetime(2026, 11, 27, tzinfo=UTC) + timedelta(seconds=len(self._when))
        self.content[name] = content
        return True

    def get(self, name: str, into: IO[bytes], size: int, *, part: bool = False) -> str:
        into.write(self.content[name][:size])
        return hashlib.sha256(self.content[name][:size]).hexdigest()

    def names(self, below: str) -> list[str]:
        return sorted(name for name in self.content if name.startswith(below))

    def spoil(self, part: bytes, *, cut: bool = False) -> None:
        """Alter the object with that in it, or cut its end off."""
        (name,) = (name for name in self.names("sealed/") if part in self.content[name])
        content = self.content[name]
        self.content[name] = content[:-1] if cut else content.replace(part, bytes(len(part)))

    def manifests(self) -> list[Manifest]:
        """Oldest first."""
        names = sorted(self.names("sessions/"), key=self._when.__getitem__)
        return [Manifest.model_validate_json(self.content[name]) for name in names]


def ignore(*done: Any) -> None:
    """No progress display."""


def test_a_pull_that_does_not_finish_has_discarded_what_was_discarded(tmp_path):
    stored, bucket, clone = StoredStudy(tmp_path / "author"), InMemory(), tmp_path / "clone"
    push(stored.root, stored.study, bucket, ignore)
    bucket.spoil(stored.failed.facts.uuid.encode())
    with pytest.raises(BenchstudyError, match="1 of 8 folders could not be fetched"):
        pull(clone, stored.study, bucket, ignore)
    # As `report --config measure=false` does.
    store = TrialStore(stored.plan.raw(clone))
    write_index_only(stored.plan, store, store.trials())
    tidy_family(clone, [stored.plan], clone / "tidy")
    told = pl.read_parquet(clone / "tidy" / "trials.parquet")
    assert dict(told.filter(pl.col("discarded_why").is_not_null()).select("trial", "discarded_why").iter_rows()) == {
        stored.discarded.short: "the disk was being scrubbed"
    }


def test_a_pull_brings_back_what_the_archive_has_and_does_not_hide_what_else_is_lost(tmp_path):
    stored, bucket, kept = StoredStudy(tmp_path / "author"), InMemory(), tmp_path / "kept"
    push(stored.root, stored.study, bucket, ignore)
    only_here = stored.add(stored.plan.cases[0].id, 4)
    stored.index()
    kept.mkdir()
    for trial in (stored.failed, only_here):
        trial.folder.rename(kept / trial.short)
    with pytest.raises(BenchstudyError, match="lists this trial, and its folder is gone") as told:
        pull(stored.root, stored.study, bucket, ignore)
    assert only_here.short in str(told.value) and stored.failed.short not in str(told.value)
    (kept / only_here.short).rename(only_here.folder)
    assert pull(stored.root, stored.study, bucket, ignore).fetched == 1
    listed = {trial.facts.uuid for trial in stored.store.trials()}
    assert {stored.failed.facts.uuid, only_here.facts.uuid} <= listed


def complete(root: Path) -> StoredStudy:
    """The small study with all of its trials."""
    stored = StoredStudy(root)
    for scheduled in missing_trials(stored.plan, stored.store, stored.store.trials()):
        stored.add(scheduled.case.id, scheduled.block)
    write_index_only(stored.plan, stored.store, stored.store.trials())
    assert index_problem(stored.store.index) is None
    return stored


def test_a_pull_calls_a_session_complete_by_the_study_that_is_here(tmp_path):
    stored, bucket = complete(tmp_path / "author"), InMemory()
    push(stored.root, stored.study, bucket, ignore)
    anew = deepcopy(STORED)
    anew["families"]["file_size"]["backends"][0]["path"] = "/elsewhere"
    elsewhere = {"box": STORED["hosts"]["box"], "other": {"address": "192.0.2.8"}}
    moved = STORED | {"hosts": elsewhere, "targets": {"one": {"roles": {"sut": "other"}}}}
    studies = {"same": STORED, "more": STORED | {"blocks": 7}, "anew": anew, "moved": moved}
    told = {}
    for name, declared in studies.items():
        study = parse_study(declared)
        (plan,) = study.sessions()
        pull(tmp_path / name, study, bucket, ignore)
        told[name] = index_problem(plan.raw(tmp_path / name) / "session.json")
        assert is_held(tmp_path / name, plan) is (told[name] is None)
    assert (told["same"], told["more"]) == (None, NOT_HELD)
    assert "the study now describes this case differently" in told["anew"]
    assert "with the role sut on the host box, and the target one now gives it to other" in told["moved"]


def test_a_session_with_discards_is_complete_in_clones_once_it_was_held_again(tmp_path):
    stored, bucket, clone = complete(tmp_path / "author"), InMemory(), tmp_path / "clone"
    index = stored.plan.raw(clone) / "session.json"

    def pulled() -> str | None:
        push(stored.root, stored.study, bucket, ignore)
        pull(clone, stored.study, bucket, ignore)
        return index_problem(index)

    assert pulled() is None
    stored.store.discard(stored.failed, "the server was updated")
    assert pulled() == NOT_HELD
    stored.add(stored.failed.facts.case, stored.failed.facts.block)
    assert pulled() == NOT_HELD, "nobody has said yet that the session was held"
    stored.index()
    push(stored.root, stored.study, bucket, ignore)
    index.unlink()
    assert pulled() is None


def test_a_discard_while_a_pull_fetches_leaves_a_session_to_hold(tmp_path, monkeypatch):
    stored, bucket, clone = complete(tmp_path / "author"), InMemory(), tmp_path / "clone"
    push(stored.root, stored.study, bucket, ignore)
    pull(clone, stored.study, bucket, ignore)
    assert is_held(clone, stored.plan)
    stored.add(stored.plan.cases[0].id, 3)
    stored.index()
    push(stored.root, stored.study, bucket, ignore)
    store = TrialStore(stored.plan.raw(clone))
    trial = next(trial for trial in store.trials() if trial.short == stored.failed.short)
    monkeypatch.setattr(bucket, "get", discarding(bucket.get, store, trial))
    pull(clone, stored.study, bucket, ignore)
    assert store.discards().keys() == {stored.discarded.facts.uuid, stored.failed.facts.uuid}
    assert index_problem(store.index) == NOT_HELD and not is_held(clone, stored.plan)


def discarding(get: Callable[..., str], store: TrialStore, trial: StoredTrial) -> Callable[..., str]:
    def get_after(name: str, *more: Any, **named: Any) -> str:
        if name.startswith("sealed/"):
            store.discard(trial, "a colleague saw why")
        return get(name, *more, **named)

    return get_after


@dataclass(frozen=True)
class TwoTargets:
    """A study of two targets, whose sessions have different trials."""

    root: Path

    @cached_property
    def study(self) -> Study:
        return parse_study(STORED | {"targets": {name: {"roles": {"sut": "box"}} for name in ("first", "second")}})

    @cached_property
    def stored(self) -> list[StoredStudy]:
        """What was measured; the folders of the targets are copies of theirs."""
        made = [StoredStudy(self.root / name) for name in ("one", "two")]
        for stored, folder in zip(made, self.stores("author"), strict=True):
            shutil.copytree(stored.store.folder, folder)
        return made

    def stores(self, project: str) -> list[Path]:
        return self.study.stores(self.root / project)

    def push(self, bucket: InMemory) -> None:
        push(self.root / "author", self.study, bucket, ignore)

    def pull(self, bucket: InMemory, clone: str) -> None:
        pull(self.root / clone, self.study, bucket, ignore)


def alter(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def test_a_push_sends_the_sessions_after_a_damaged_one(tmp_path):
    two, bucket = TwoTargets(tmp_path), InMemory()
    ok, store = two.stored[0].ok.folder, two.stores("author")[0]
    file = store / ok.relative_to(two.stored[0].store.folder) / "stdout"
    kept = file.read_bytes()
    alter(file, b"other")
    with pytest.raises(BenchstudyError, match="stdout: altered"):
        two.push(bucket)
    assert len(bucket.names("sealed/")) == 14, "all folders but that one; both have the same record of a session"
    assert [name.split("/")[2] for name in bucket.names("sessions/")] == ["second"]
    alter(file, kept)
    two.push(bucket)
    # An object that is damaged there, and something new of the other target.
    bucket.spoil(two.stored[0].ok.facts.uuid.encode(), cut=True)
    (discard,) = (two.stores("author")[1] / "discards").iterdir()
    discard.unlink()
    with pytest.raises(BenchstudyError, match="Nothing is overwritten"):
        two.push(bucket)
    assert [name.split("/")[2] for name in bucket.names("sessions/")] == ["first", "second", "second"]


@pytest.mark.parametrize("which", ["ok", "discarded"])
def test_a_push_sends_the_other_folders_of_a_session_with_a_damaged_object(tmp_path, which):
    stored, bucket = StoredStudy(tmp_path), InMemory()
    push(stored.root, stored.study, bucket, ignore)
    everything = bucket.names("sealed/")
    bucket.spoil(getattr(stored, which).facts.uuid.encode(), cut=True)
    (lost,) = (name for name in everything if stored.failed.facts.uuid.encode() in bucket.content[name])
    bucket.content.pop(lost)
    (discard,) = (stored.store.folder / "discards").iterdir()
    alter(discard, discard.read_bytes() + b"\n")
    with pytest.raises(BenchstudyError, match="Nothing is overwritten"):
        push(stored.root, stored.study, bucket, ignore)
    assert bucket.names("sealed/") == everything
    assert len(bucket.manifests()) == 1, "the new state has no manifest, because the archive lacks a part of it"


def test_a_pull_fetches_the_sessions_after_a_damaged_one(tmp_path):
    two, bucket = TwoTargets(tmp_path), InMemory()
    ok = two.stored[0].ok
    two.push(bucket)
    two.pull(bucket, "altered")
    first, second = two.stores("altered")
    bucket.spoil(ok.facts.uuid.encode())
    with pytest.raises(BenchstudyError, match="1 of 8 folders could not be fetched"):
        two.pull(bucket, "clone")
    assert [len(list(store.glob(f"*/*/{SUMS}"))) for store in two.stores("clone")] == [7, 8]
    assert [(store / "session.json").exists() for store in two.stores("clone")] == [False, True]
    # A trial that was altered here, after it was fetched.
    alter(first / ok.folder.relative_to(two.stored[0].store.folder) / "stdout", b"other")
    for store in (first, second):
        (store / "session.json").unlink()
    with pytest.raises(BenchstudyError, match="stdout: altered"):
        two.pull(bucket, "altered")
    assert [(store / "session.json").exists() for store in (first, second)] == [False, True]


MEANWHILE = {
    "a trial": lambda stored: stored.add(stored.plan.cases[0].id, 3),
    "a discard": lambda stored: stored.store.discard(stored.failed, "a colleague saw why"),
    "the record of the session": lambda stored: stored.add_session("33333333-3333-4333-8333-333333333333"),
}


@pytest.mark.parametrize("happens", MEANWHILE.values(), ids=MEANWHILE)
def test_a_push_while_a_session_ends_does_not_call_it_complete(tmp_path, monkeypatch, happens):
    stored, bucket = complete(tmp_path / "author"), InMemory()

    def look_then(store: Path) -> Any:
        seen = look(store)
        happens(stored)
        stored.index()
        return seen

    with monkeypatch.context() as patch:
        patch.setattr("benchstudy.archive.push.look", look_then)
        push(stored.root, stored.study, bucket, ignore)
    push(stored.root, stored.study, bucket, ignore)
    assert [manifest.problem for manifest in bucket.manifests()] == [NOT_HELD, None]


def test_a_discarded_trial_that_is_damaged_leaves_a_session_complete(tmp_path):
    stored, bucket = complete(tmp_path / "author"), InMemory()
    alter(stored.discarded.folder / "stdout", b"other")
    stored.index()
    told = push(stored.root, stored.study, bucket, ignore)
    assert len(told.left_out) == 1 and [manifest.problem for manifest in bucket.manifests()] == [None]


def test_large_packs_are_put_together_on_the_disk_of_the_project(tmp_path, monkeypatch):
    monkeypatch.setattr("benchstudy.archive.push._IN_MEMORY", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    stored, bucket, clone = StoredStudy(tmp_path / "author"), InMemory(), tmp_path / "clone"
    push(stored.root, stored.study, bucket, ignore)
    pull(clone, stored.study, bucket, ignore)
    assert [list((root / ".benchstudy").glob("tmp*")) for root in (stored.root, clone)] == [[], []]


def test_objects_wait_in_a_bounded_number_and_all_get_their_result():
    begun = []
    results = side_by_side(str, (begun.append(n) or n for n in range(5_000)))
    first = next(results)
    assert len(begun) < 500
    assert sorted([first, *results], key=int) == [str(n) for n in range(5_000)]
