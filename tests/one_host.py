"""Studies whose only target is one host."""

from collections.abc import Mapping
from typing import Any

from benchstudy.model.host import Host
from benchstudy.model.study import Study, parse_study


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
