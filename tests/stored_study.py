"""A small study with every kind of trial, stored through the store's own code."""

from pathlib import Path
from typing import Any

from benchstudy.measuring.raw import TrialStore, seal
from benchstudy.measuring.sessionindex import write_index
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.measuring.trialrecord import CommandRecord, ToolRecord, TrialRecord
from benchstudy.model import interference, paths
from benchstudy.model.files import as_json
from benchstudy.model.study import SessionPlan
from benchstudy.model.studyfile import parse_study

STUDY = {
    "study": "small",
    "title": "Small files",
    "question": "Does the bucket keep up with the disk?",
    "blocks": 2,
    "license": "CC-BY-4.0",
    "disturbance": {"then": "repeat", "at_most": 1},
    "authors": [{"name": "Ada Example", "orcid": "0000-0002-1825-0097", "affiliation": "Example Lab"}],
    "hosts": {"box": {"address": "192.0.2.7"}},
    "targets": {"one": {"roles": {"sut": "box"}}},
    "families": {
        "file_size": {
            "backends": [
                {"name": "disk", "kind": "path", "path": "/var/tmp"},
                {
                    "name": "bucket", "kind": "s3", "bucket": "some-bucket",
                    "access_key_env": "CRATE_TEST_KEY", "secret_key_env": "CRATE_TEST_SECRET",
                },
            ],
            "sizes": ["100KB"],
            "sync": ["fsync"],
            "cache": ["cold"],
        }
    },
}  # fmt: skip
SESSION, LOST = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
TOOL = ToolRecord(name="python3", path="/usr/bin/python3.11", version="Python 3.11.2", sha256="a" * 64)


class StoredStudy:
    """Measure the study in the project at `root`: ok, failed, timed out, aborted, discarded and imported trials.

    `ok` repeats a trial that others disturbed.
    """

    def __init__(self, root: Path):
        self.root, self.study = root, parse_study(STUDY)
        (self.plan,) = self.study.sessions()
        self.store = TrialStore(paths.family_raw(root, "small", "one", "file_size"))
        write, read, upload, _ = (case.id for case in self.plan.cases)
        self.disturbed = self.add(write, 1, seen=0.55)
        self.ok = self.add(write, 1, seen=0.01)
        self.failed = self.add(upload, 1, status="failed", cause="403 <script>", commands=["prepare", "command"])
        self.timeout = self.add(read, 1, status="timeout", cause="took longer than 600 s")
        self.aborted = self.add(read, 2, status="aborted", cause="connection lost", session=LOST)
        self.discarded = self.add(write, 2)
        self.imported = self.add(write, 3, session="imported", imported_from="answer.json", commands=[], roles={})
        self.store.discard(self.discarded, "the disk was being scrubbed")
        self.add_session(SESSION)
        self.index()

    def add(
        self, case: str, block: int, *, commands: list[str] | None = None, seen: float | None = None, **fields: Any
    ) -> StoredTrial:
        partial = self.store.begin(case, block)
        if seen is not None:
            about = {"shares": {"others_cpu": seen}, "others_cpu": 2 * seen, "cpus": 2, "busiest": ["backup"]}
            (partial.folder / interference.FILE).write_text(as_json({"commands": [], "seen": {"box": about}}))
        ok = fields.get("status", "ok") == "ok"
        labels = ["command"] if commands is None else commands
        for label in labels:
            folder = partial.folder if label == "command" else partial.folder / label
            (folder / "files").mkdir(parents=True)
            for name in ("stdout", "stderr", "supervisor.json", "files/answer of it.json"):
                (folder / name).write_text(f"{name} of {label}\n")
        if not labels:
            (partial.folder / "answer.json").write_text("{}")
        second = len(list(self.store.folder.glob("*/[!.]*")))
        definitions = {case.id: case.definition_sha256 for case in self.plan.cases}
        record = {
            "uuid": partial.uuid, "study": "small", "study_sha256": self.study.sha256, "target": "one",
            "family": "file_size", "case": case, "levels": dict(part.split("=") for part in case.split(",")),
            "definition": {}, "definition_sha256": definitions[case], "block": block, "position": 1, "session": SESSION,
            "roles": {"sut": "box"}, "status": "ok", "cause": None,
            "started": f"2026-11-20T10:00:{second:02d}.000+00:00",
            "finished": f"2026-11-20T10:00:{second:02d}.900+00:00", "duration_s": 0.9,
            "commands": [self._command(label, ok) for label in labels], "instrument": "2" * 64,
            "verified": {"tool": "fio", "tool_version": "fio-3.33"},
        }  # fmt: skip
        return partial.commit(TrialRecord(**record | fields))

    def _command(self, label: str, ok: bool) -> CommandRecord:
        return CommandRecord(
            label=label, role="sut", host="box", argv=["python3", "probe", "a b"], tool=TOOL, state="exited",
            exit_status=0 if ok else 1, signal=None, started="2026-11-20T10:00:00.100Z",
            finished="2026-11-20T10:00:01.000Z", duration_s=0.9, stdout_truncated=False, stderr_truncated=False,
            boot_id="b", load_before=0.1, load_after=0.2, clock_offset_s=0.0,
        )  # fmt: skip

    def add_session(self, uuid: str) -> None:
        facts = {"kernel": {"release": "6.1.0"}, "os_release": {"PRETTY_NAME": "Debian 12"}, "cpus_allowed": 2}
        record = {
            "uuid": uuid, "seed": 1, "started": "2026-11-20T09:59:59.000+00:00",
            "finished": "2026-11-20T10:01:00.000+00:00", "controller": "desk", "instrument": "2" * 64,
            "study_sha256": self.study.sha256, "declared": self.study.model_dump(mode="json", serialize_as_any=True),
            "hosts": {"box": {"before": facts, "after": facts, "diff": []}}, "events": [],
        }  # fmt: skip
        folder = self.store.folder / "sessions" / uuid[:8]
        folder.mkdir(parents=True)
        (folder / "session.json").write_text(as_json(record))
        seal(folder)

    def index(self, problem: str | None = None, plan: SessionPlan | None = None) -> None:
        write_index(plan or self.plan, self.store, self.store.trials(), problem)
