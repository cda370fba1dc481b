"""The embedded storage study's services and backends, and a way to hold a session of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from sshd_hosts import SshdHost

from benchstudy.measuring.raw import StoredTrial, TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.model import paths
from benchstudy.model.study import Study, parse_study

# As in the embedded study: every server is real, each on a free port of loopback, gone with the session.
SERVICES: dict[str, Any] = yaml.safe_load(
    """
sshd:
  ports: [ssh]
  files:
    sshd_config: |
      Port {{port.ssh}}
      ListenAddress 127.0.0.1
      HostKey {{dir}}/host_key
      AuthorizedKeysFile {{dir}}/user_key.pub
      PidFile none
      StrictModes no
      UsePAM no
      PasswordAuthentication no
      KbdInteractiveAuthentication no
      PermitRootLogin prohibit-password
      UseDNS no
      Subsystem sftp internal-sftp
  setup:
    - [ssh-keygen, -q, -t, ed25519, -N, "", -f, "{{dir}}/host_key"]
    - [ssh-keygen, -q, -t, ed25519, -N, "", -f, "{{dir}}/user_key"]
    - [sh, -c, 'sed "s/^/storage /" "$1/host_key.pub" > "$1/known_hosts"', sh, "{{dir}}"]
    - [mkdir, "{{dir}}/export"]
  argv: [/usr/sbin/sshd, -D, -e, -f, "{{dir}}/sshd_config"]
  ready: {tcp: ssh}
sshfs:
  needs: [sshd]
  setup:
    - [mkdir, "{{dir}}/mount"]
  argv:
    - sshfs
    - -f
    - -p
    - "{{sshd.port.ssh}}"
    - -o
    # auto_cache keeps the page cache of an unchanged file when it is opened: without it nothing is ever warm.
    - "auto_cache,HostKeyAlias=storage,UserKnownHostsFile={{sshd.dir}}/known_hosts,\\
      IdentityFile={{sshd.dir}}/user_key,IdentitiesOnly=yes,StrictHostKeyChecking=yes,BatchMode=yes"
    - "127.0.0.1:{{sshd.dir}}/export"
    - "{{dir}}/mount"
  ready: {mount: "{{dir}}/mount"}
  stop: [fusermount3, -u, "{{dir}}/mount"]
rclone:
  ports: [s3]
  secrets: [access_key, secret_key]
  libraries: [rclone]
  setup:
    - [mkdir, "{{dir}}/data"]
  env:
    # The variable is read as a line of CSV. On the command line everybody could read the keys.
    RCLONE_AUTH_KEY: '"{{secret.access_key}},{{secret.secret_key}}"'
    RCLONE_CONFIG: ""
  argv: ["{{library.rclone}}/rclone", serve, s3, --addr, "127.0.0.1:{{port.s3}}", "{{dir}}/data"]
  ready: {tcp: s3}
"""
)

SSHFS = {
    "name": "sshfs",
    "kind": "path",
    "service": "sshfs",
    "path": "{{service.dir}}/mount",
    "expect_fs": "fuse.sshfs",
}
RCLONE = {
    "name": "rclone-s3",
    "kind": "s3",
    "service": "rclone",
    "bucket": "benchstudy",
    "endpoint_url": "http://127.0.0.1:{{service.port.s3}}",
    "region": "us-east-1",
    "addressing_style": "path",
}


def file_size_study(backends: Sequence[str], path: Path | None = None, **changed: Any) -> dict[str, Any]:
    """A family block with some of the three embedded backends, small."""
    known = {"local": {"name": "local", "kind": "path", "path": str(path)}, "sshfs": SSHFS, "rclone-s3": RCLONE}
    return {
        "backends": [dict(known[name]) for name in backends],
        "sizes": ["100KB", "1MB"],
        "sync": ["none", "fsync"],
        "operations": 3,
        "timeout": "60s",
        "services": SERVICES,
        **changed,
    }


def study_of(host: SshdHost, config: dict[str, Any], work_dir: Path) -> Study:
    described = host.host.model_dump(exclude_none=True) | {"work_dir": str(work_dir)}
    return parse_study(
        {
            "study": "storage",
            "blocks": 1,
            "hosts": {"server": described},
            "targets": {"server": {"roles": {"sut": "server"}}},
            "families": {"file_size": config},
        }
    )


def measure(root: Path, host: SshdHost, config: dict[str, Any]) -> list[StoredTrial]:
    """Hold one session and return its trials, verified."""
    plan = study_of(host, config, root / "work").session("server", "file_size")
    with pytest.MonkeyPatch.context() as environment:
        # A lock of this host alone: whatever else measures on the machine is not in the way of a test.
        environment.setenv("BENCHSTUDY_HOST_LOCK", str(root / "host-lock"))
        hold_session(root, plan)
    return TrialStore(paths.family_raw(root, "storage", "server", "file_size")).trials()


def trials_by_case(trials: list[StoredTrial]) -> dict[str, StoredTrial]:
    return {trial.record.case: trial for trial in trials}
