"""Secrets are removed from what tools wrote, whatever its size."""

import base64
import json
import os
import shlex
import subprocess
import sys
import tracemalloc
from contextlib import ExitStack, suppress
from html import escape
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from benchstudy.hosts.services import RunningService
from benchstudy.measuring import state as state_module
from benchstudy.measuring.execution import said_in
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.measuring.sessionrecord import SessionRecord, keep_interrupted
from benchstudy.measuring.state import SessionState
from benchstudy.measuring.trial import TrialContext
from benchstudy.model import paths
from benchstudy.model.errors import TrialFailed
from benchstudy.model.services import Ready, Service
from benchstudy.model.studyfile import parse_study

MIB = 1 << 20
STUDY = {
    "study": "s",
    "hosts": {"alpha": {"address": "nobody@192.0.2.1"}},
    "targets": {"here": {"roles": {"sut": "alpha"}}},
    "families": {"fio": {}},
}


class Printing:
    """A service whose log has the secret, and what happens as it is stopped."""

    def __init__(self, happens):
        self.happens = happens

    def stop(self, into):
        into.mkdir(parents=True)
        (into / "stdout").write_text("key: hunter2\n")
        self.happens()


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("ends", ["well", "Ctrl-C as a service stops", "no space for the file without it", "killed"])
def test_no_record_is_sealed_with_a_secret_in_the_log_of_a_service(tmp_path, monkeypatch, ends):
    plan = parse_study(STUDY).session("here", "fio")
    record = SessionRecord(tmp_path, "0a1b2c3d-session", plan, "instrument")
    record.begin({})
    state = SessionState("session", plan, {}, record.folder, record.event)
    monkeypatch.setenv("KEY", "hunter2")
    state.secret("KEY")
    stops = interrupt if ends in ("Ctrl-C as a service stops", "killed") else lambda: None
    monkeypatch.setattr(state, "_services", {"database": Printing(stops), "share/web": Printing(lambda: None)})
    if ends.startswith("no space"):

        def full(*_):
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(state_module, "_write_redacted", full)
    with suppress(KeyboardInterrupt, OSError), ExitStack() as stack:
        if ends != "killed":
            stack.callback(record.end, {})
        stack.callback(state.close)
    if ends == "killed":
        assert keep_interrupted(record.folder)
    kept = tmp_path / "sessions" / "0a1b2c3d"
    assert (kept / "session.json").is_file() and not (kept / ".unredacted").exists()
    assert not any("hunter2" in path.read_text() for path in kept.rglob("*") if path.is_file())
    logs = {path.parent.name for path in kept.glob("services/**/stdout")}
    assert logs == {"well": {"database", "web"}, "no space for the file without it": set()}.get(ends, {"web"})


def _written(path):
    """Which file it is, and when it was last written."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns


def test_secrets_are_removed_from_a_file_without_reading_it_whole(tmp_path, monkeypatch):
    state = SessionState("session", parse_study(STUDY).session("here", "fio"), {}, tmp_path / "session", print)
    monkeypatch.setenv("KEY", 'one"key')
    monkeypatch.setenv("LONGER", 'one"key-and-more')
    state.secret("KEY"), state.secret("LONGER")
    large, clean, empty = (tmp_path / "trial" / name for name in ("large", "clean", "empty"))
    large.parent.mkdir()
    empty.touch()
    clean.write_text("nothing secret")
    (tmp_path / "trial" / "link").symlink_to("large")
    with large.open("wb") as file:
        file.write(b'one"key-and-more, one"key')
        file.seek(64 * MIB)
        file.write(b'{"key": "one\\"key"}')
    unchanged = _written(clean)
    tracemalloc.start()
    state.redact_files(large.parent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MIB
    with large.open("rb") as file:
        assert file.read(100).rstrip(b"\0").decode() == "«redacted», «redacted»"
        file.seek(-30, 2)
        assert file.read().lstrip(b"\0").decode() == '{"key": "«redacted»"}'
    assert (tmp_path / "trial" / "link").is_symlink() and (clean.read_text(), empty.read_text()) == (
        "nothing secret",
        "",
    )
    assert _written(clean) == unchanged
    assert sorted(path.name for path in large.parent.iterdir()) == ["clean", "empty", "large", "link"]


@pytest.mark.parametrize(
    ("secret", "written", "kept"),
    [
        ("hunter2", "key: hunter", "key: «redacted»"),
        ("hunter2", "hunter2", "«redacted»"),
        ("hunhuntr", "hunhunhunt", "hun«redacted»"),
        ("one two", "key=one%2", "key=«redacted»"),
        ("hunter2", "hun", "hun"),
        ("hunter2", "hunter hunted\n", "hunter hunted\n"),
        ("1234567890", "rate 12345", "rate 12345"),
        ("1234567890", "rate 12345678", "rate «redacted»"),
    ],
)
def test_an_output_that_was_cut_off_does_not_end_within_a_secret(tmp_path, monkeypatch, secret, written, kept):
    monkeypatch.setenv("KEY", secret)
    state = state_in(tmp_path)
    state.secret("KEY")
    (tmp_path / "stdout").write_text(written)
    assert state.redact_files(tmp_path) == (["stdout"] if "«" in kept else [])
    assert (tmp_path / "stdout").read_text() == kept == state.redact(written, may_be_cut=True)


def state_in(folder) -> SessionState:
    return SessionState("session", parse_study(STUDY).session("here", "fio"), {}, folder, print)


@pytest.mark.parametrize(
    "written",
    [
        lambda s: f'{{"said": {json.dumps(json.dumps({"key": s}))}}}', lambda s: f"GET /?key={quote(s)}", escape, repr,
        shlex.quote, lambda s: f"Basic {base64.b64encode(f'user:{s}'.encode()).decode()}",
    ],
    ids=["JSON in JSON", "URL", "HTML", "repr", "shell", "base64"],
)  # fmt: skip
def test_a_secret_is_removed_however_a_tool_writes_it(tmp_path, monkeypatch, written):
    secret = "pä ss\"%&'<word>"
    monkeypatch.setenv("KEY", secret)
    state = state_in(tmp_path)
    state.secret("KEY")
    (tmp_path / "stdout").write_text(f"before {written(secret)} after")
    assert state.redact_files(tmp_path) == ["stdout"]
    said = (tmp_path / "stdout").read_text()
    assert "«redacted»" in said
    assert said.startswith("before ") and said.endswith(" after") and "word" not in said
    assert base64.b64encode(secret.encode())[:8].decode() not in said
    assert state.redact(f"before {written(secret)} after") == said


@pytest.mark.parametrize("value", ["1", "abc", "1234567", "key \udcff"])
def test_what_figures_contain_by_chance_is_no_secret(tmp_path, monkeypatch, value):
    monkeypatch.setenv("KEY", value)
    with pytest.raises(TrialFailed, match=r"the environment variable KEY is (too short|not UTF-8)") as failed:
        state_in(tmp_path).secret("KEY")
    assert value not in str(failed.value).partition(":")[0].split()
    state = state_in(tmp_path)
    with pytest.raises(TrialFailed, match=r"^a: a password is (too short|not UTF-8).*: set ") as failed:
        TrialContext(state, "uuid", tmp_path, 1).keep_secret(value, "a: a password")
    assert value not in str(failed.value).partition(":")[0].split() and state.redact(f"x {value}") == f"x {value}"
    look = HostCheck(SimpleNamespace(remote=SimpleNamespace(name="alpha")), ())
    assert not look.variable("KEY", "server web") and look.findings[0][1].startswith("server web: KEY is ")


def test_a_check_looks_for_the_secrets_of_the_services_of_every_family(monkeypatch):
    monkeypatch.delenv("KEY", raising=False)
    look = HostCheck(SimpleNamespace(remote=SimpleNamespace(name="alpha")), ("sut",))
    told = Service(argv=["{{dir}}/web"], ready=Ready(file="up"), secret_env={"key": "KEY"})
    look.services({"web": told, "another": told, "elsewhere": told.model_copy(update={"role": "db"})})
    assert look.findings == [(False, "service web: KEY is not set", "export KEY where snakemake runs")]


def test_no_end_of_a_password_is_left_because_it_begins_with_the_name_of_its_user():
    secrets = {"user": "bench", "password": "bench-hunter2"}
    service = RunningService("web", "uuid", "/folder", "/dir", {}, secrets)
    assert service.redacted("refused bench with bench-hunter2") == "refused «redacted» with «redacted»"


@pytest.mark.parametrize("of_agent", [True, False], ids=["log of a service", "output of a command"])
def test_the_end_of_a_log_does_not_begin_within_a_secret(tmp_path, of_agent):
    kept = 3000 if of_agent else 600
    last = "x" * (kept - 10) + "\n"
    (tmp_path / "stderr").write_text(f"refused hunter2-hunter2\n{last}")  # it begins within the secret
    code = "import sys; sys.path.insert(0, sys.argv[1]); import service; print(service._log_tail(sys.argv[2]))"
    argv = [sys.executable, "-I", "-c", code, str(paths.PACKAGE / "agent"), str(tmp_path)]
    said = subprocess.check_output(argv, text=True) if of_agent else said_in(tmp_path / "stderr")
    assert said.strip() == last.strip()
