"""The record of a session: when, in which order and on what it measured, and what happened meanwhile.

It is on disk from the first trial on. A killed controller leaves it too, so no trial refers to an unknown session.
"""

import os
import shutil
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchstudy.measuring.sealed import SESSIONS, make_writable, seal
from benchstudy.model import paths
from benchstudy.model.differences import environment_diff
from benchstudy.model.files import as_json, json_of, now, write_atomically
from benchstudy.model.study import SessionPlan

# Files of a record from which secrets have not been removed. They are never sealed.
UNREDACTED = ".unredacted"
_KILLED = "its controller was killed: what follows is not known"


def _declared(plan: SessionPlan) -> dict[str, Any]:
    """The study as declared, with this target alone: each of a thousand records would hold a thousand hosts."""
    target = plan.study.targets[plan.target]
    hosts = {name: plan.study.hosts[name] for name in target.roles.values()}
    shown: dict[str, Any] = {"mode": "json", "serialize_as_any": True}
    return {
        **plan.study.model_dump(**shown, exclude={"measure", "beside", "hosts", "targets"}),
        "hosts": {name: host.model_dump(**shown) for name, host in hosts.items()},
        "targets": {plan.target: target.model_dump(**shown)},
    }


class SessionRecord:
    """The record of the session `uuid`, in the folder of a family on a target. `folder` also holds logs of services."""

    def __init__(self, store: Path, uuid: str, plan: SessionPlan, instrument: str):
        self.folder = store / SESSIONS / f".partial-{uuid[:8]}"
        self.folder.mkdir(parents=True)
        self._final = self.folder.with_name(uuid[:8])
        self._writing = threading.Lock()
        self._is_final = False
        self._hosts: dict[str, dict[str, Any]] = {}
        self._events: list[str] = []
        self._content = {
            "uuid": uuid,
            "seed": plan.study.seed,
            "started": now(),
            "finished": None,
            "controller": socket.gethostname(),
            "instrument": instrument,
            "study_sha256": plan.study.sha256,
            "declared": _declared(plan),
            "hosts": self._hosts,
            "events": self._events,
        }

    def event(self, text: str) -> None:
        """Record an event. Thread-safe."""
        self._events.append(f"{now()} {text}")
        if self._hosts:
            with suppress(OSError):  # a full disk is reported when the next trial is stored
                self.save()

    def begin(self, environments: Mapping[str, Mapping[str, Any]]) -> None:
        """Start the record. `environments`: facts by host. From here on, a killed controller leaves a record."""
        for name, facts in environments.items():
            self._hosts[name] = {"before": facts, "after": None, "diff": environment_diff(facts, {})}
        self.save()

    def save(self) -> None:
        """Write the record as it is now. If nothing follows, the session ended here."""
        with self._writing:
            if self._is_final:  # events of threads that outlive the session: its files are being hashed, or were
                return
            write_atomically(self.folder / paths.SESSION_INDEX, as_json({**self._content, "finished": now()}))

    def end(self, environments: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Seal the record. `environments`: facts by host after the session, or None if unknown."""
        for name, facts in environments.items():
            host = self._hosts[name]
            host |= {"after": facts, "diff": environment_diff(host["before"], facts or {})}
        self.save()
        with self._writing:
            self._is_final = True
        _seal(self.folder)
        self.folder.rename(self._final)


def keep_interrupted(partial: Path) -> bool:
    """Seal the record that a killed session left in `partial`. Returns False if it has none."""
    record = partial / paths.SESSION_INDEX
    try:
        content = json_of(record.read_bytes())
        events, kept = content["events"], partial.with_name(content["uuid"][:8])
        if not events or not events[-1].endswith(_KILLED):
            events.append(f"{content['finished']} {_KILLED}")
    # A record that cannot be read now may be readable later.
    except (AttributeError, FileNotFoundError, LookupError, TypeError, ValueError):
        return False
    make_writable(partial)  # it may have been killed while sealing
    for unfinished in partial.glob(f".{paths.SESSION_INDEX}.*"):
        unfinished.unlink()
    write_atomically(record, as_json(content))
    _seal(partial)
    os.rename(partial, kept)
    return True


def _seal(record: Path) -> None:
    if (record / UNREDACTED).exists():
        shutil.rmtree(record / UNREDACTED)
    seal(record)
