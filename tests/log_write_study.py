"""Small studies of the family log_write: real logs, good ones and bad ones, and a function that holds a session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from one_host import study_on, trials_held

from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.study import SessionPlan, Study

FAMILY = "log_write"
KEYS = ["--private", "{{dir}}/log.key", "--public", "{{dir}}/log.pub"]
KEYGEN = ["{{tools}}/logbench", "keygen", "--name", "tests", *KEYS]
LOG = {
    "setup": [KEYGEN, ["mkdir", "{{dir}}/log"]],
    "argv": ["sleep", "infinity"],
    "ready": {"file": "{{dir}}/log"},
}
POSIX_ARGV = [
    "{{tools}}/tessera-posix",
    "--listen={{bind}}:{{port.http}}",
    "--storage_dir={{log.dir}}/log",
    "--private_key={{log.dir}}/log.key",
]
POSIX = {"needs": ["log"], "ports": ["http"], "argv": POSIX_ARGV, "ready": {"tcp": "http"}}
POSIX_ANTISPAM = {**POSIX, "argv": [*POSIX_ARGV, "--antispam"]}
BACKEND = {
    "name": "posix",
    "kind": "posix",
    "label": "POSIX, local disk",
    "store": "log",
    "service": "posix",
    "antispam_service": "posix-antispam",
    "public_key": "{{log.dir}}/log.pub",
    "directory": "{{log.dir}}/log",
}
OPEN = {"name": "open", "tool": "logbench", "warm_up": "1s", "duration": "5s"}
HAMMER = {"name": "hammer", "tool": "tessera-hammer", "warm_up": "2s", "duration": "5s"}
SERVICES = {"log": LOG, "posix": POSIX, "posix-antispam": POSIX_ANTISPAM}


def family(**changes: Any) -> dict[str, Any]:
    """A valid block of a study, with these changes."""
    block = {"backends": [BACKEND], "generators": [OPEN, HAMMER], "rates": ["200/s"], "services": SERVICES}
    return {**block, **changes}


def study_of(block: Mapping[str, Any], host: Mapping[str, Any] | None = None) -> Study:
    return study_on(host, {FAMILY: dict(block)}, blocks=1)


def plan_of(**changes: Any) -> SessionPlan:
    return study_of(family(**changes)).session("bench", FAMILY)


def hold(root: Path, block: Mapping[str, Any], host: Mapping[str, Any]) -> list[StoredTrial]:
    return trials_held(root, study_of(block, host).session("bench", FAMILY))
