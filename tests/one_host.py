"""Studies whose only target is one host, sessions, and what a family's check finds there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.measuring.hostcheck import HostCheck
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.family import Family, FamilyConfig
from benchstudy.model.host import Host
from benchstudy.model.study import SessionPlan, Study
from benchstudy.model.studyfile import parse_study


def study_on(
    host: Host | Mapping[str, Any] | None, families: Mapping[str, Any], *, study: str = "small", target: str = "bench",
    name: str = "here", **more: Any,
) -> Study:  # fmt: skip
    """`families` on a `host` (None: this machine), which the study calls `name`. `more`: other keys of the study."""
    if isinstance(host, Host):
        host = host.model_dump(exclude_none=True, exclude_defaults=True)
    hosts = {name: dict(host or {"loopback": True})}
    targets = {target: {"roles": {"sut": name}}}
    return parse_study({"study": study, "hosts": hosts, "targets": targets, "families": dict(families), **more})


def trials_held(root: Path, plan: SessionPlan) -> list[StoredTrial]:
    """Hold a session to its end, and return its trials, verified, by case and block."""
    hold_session(root, plan)
    return TrialStore(plan.raw(root)).trials()


def findings_of(family: Family, config: FamilyConfig, host: Host, *roles: str) -> list[tuple[bool, str, str]]:
    """What `benchstudy check` would say of the family on a host with these roles."""
    with Remote("here", host) as remote:
        agent = HostAgent.deploy(remote, lease_s=30, reconnect_s=0, on_event=print, extensions=family.extensions)
        look = HostCheck(agent, roles)
        family.check(config, look)
    return look.findings
