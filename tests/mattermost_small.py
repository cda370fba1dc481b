"""The full study's system with one release, few rows and one host, provisioned: the base for tests of real loads."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import CHECKOUT
from load_test_study import FAMILY, study_of
from sshd_hosts import SshdHost

from benchstudy.model.studyfile import with_systems
from benchstudy.provisioning.target import provision_target

_STUDY = CHECKOUT / "config" / "studies" / "mattermost-releases.yaml"
SERVER, NEWER_SERVER = "mattermost-9.9", "mattermost-10.2"
_SETTLE, _NEWER = "--settle", "--release=10.2"  # for making the data set


def block_of(sizes: Mapping[str, int], *, newer: bool = False, **changes: Any) -> dict[str, Any]:
    """The family's block without versions and loads.

    `sizes`: of the data set, as seed.py calls them. `newer`: include the newer release, and wait for what releases do
    at first; otherwise neither.
    """
    family = with_systems(yaml.safe_load(_STUDY.read_text()))["families"][FAMILY]
    left_out = () if newer else (_SETTLE, _NEWER)
    wanted = ("dataset", "postgres", SERVER, *([NEWER_SERVER] if newer else []), "node-exporter", "prometheus")
    services = {name: family["services"][name] for name in wanted}
    for service in services.values():
        service.pop("role", None)
    (seeding,) = services["dataset"]["setup"]
    sized = [re.sub(r"^--([a-z-]+)=\d+$", lambda m: f"--{m[1]}={sizes.get(m[1], 1)}", word) for word in seeding]
    services["dataset"]["setup"] = [[word for word in sized if not word.startswith(left_out)]]
    return {
        "databases": [{"name": "postgres", "label": "PostgreSQL", "service": "postgres"}],
        "system": family["system"],
        "prometheus": {"service": "prometheus"},
        "services": services,
        **changes,
    }


@contextmanager
def provisioned(root: Path, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The host as in a study, with everything that the block needs; it works in `root`/work."""
    if os.getuid() != 0:
        pytest.skip("only root may make control groups here")
    with SshdHost(root / "sshd") as sshd:
        host = sshd.described(root / "work")
        with pytest.MonkeyPatch.context() as here:
            here.chdir(CHECKOUT)
            provision_target(study_of(block, host), "bench", root / "facts.json")
        yield host
