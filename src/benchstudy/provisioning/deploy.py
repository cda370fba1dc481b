"""The functions that deploys call to say which packages and programs a host needs.

A deploy is an ordinary pyinfra file that runs for every host on which the family is measured: `envs/<family>.py` of the
project or of what ships, or else `deploy.py` in the family's own package; and `deploy.py` of each system of the
catalogue that is built and started there. Systems declare the packages they need themselves. A deploy sees

- `host.data.roles`: the roles the host plays in the target, such as `["sut", "load"]`
- `host.data.target_roles`: all roles of the target, on any host
- `host.data.family`: the family's block of the study, as plain data
- `host.data.work_dir`: the host's work folder, absolute

and may use any pyinfra operation, as long as a second run changes nothing.

`install` is for what the host's package manager provides. `go_tool` and `python_tool` are for what it does not provide,
or not in one version everywhere: built on the host without root, below its work folder, from pinned sources, and
available to services as `{{tools}}/<name>`. They run after all packages are installed.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from pyinfra import host
from pyinfra.facts.deb import DebPackages
from pyinfra.facts.server import Command, Which
from pyinfra.operations import server

from benchstudy.model import needs, paths
from benchstudy.model.errors import BenchstudyError

GO_REQUIREMENTS = "envs/go-requirements.txt"

# Debian starts a service as soon as its package is installed, unless this file forbids it. Afterwards our file is
# always removed; one that existed before is left alone. If this shell is killed, our file forbids nothing any more, and
# whoever asks it removes it.
INSTALL_IDLE = """policy=/usr/sbin/policy-rc.d
grep -q '^# benchstudy' "$policy" 2> /dev/null && sh "$policy"
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    cat > "$policy" << END
#!/bin/sh
# benchstudy, while process $$ installs packages
[ "\\$(cut -d ' ' -f 22 /proc/$$/stat 2> /dev/null)" = "$(cut -d ' ' -f 22 /proc/$$/stat)" ] && exit 101
rm -f "$policy"
exit 0
END
    chmod 755 "$policy"
fi
DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends -o DPkg::Lock::Timeout=600 install {packages} || exit
if command -v systemctl > /dev/null; then systemctl disable {units} || true; fi
"""


def install(
    why: str,
    *packages: str,
    roles: Sequence[str] = (),
    dnf: Sequence[str] = (),
    apk: Sequence[str] = (),
    programs: Sequence[str] = (),
    idle: Sequence[str] = (),
) -> None:
    """Have `packages` (Debian's names) on the host; `dnf` and `apk`: those managers' names, if they differ.

    `why` is what a person reads when it fails. `roles`: only on hosts that play one of them; all when empty.
    `programs`: which of their programs are used, for the facts. `idle`: services they bring that must not start by
    themselves on a host that has just got them; Debian would start them at once and at every boot.
    """
    if not _plays(roles):
        return
    wanted = list(packages)
    for manager, names in (("dnf", dnf), ("apk", apk)):
        if names and _has(manager):
            wanted = list(names)
    host.data.requested = sorted({*host.data.get("requested", []), *wanted})
    host.data.programs = sorted({*host.data.get("programs", []), *programs})
    if idle and _has("apt-get"):
        missing = [name for name in wanted if name not in host.get_fact(DebPackages)]
        if missing:
            script = INSTALL_IDLE.format(packages=shlex.join(missing), units=shlex.join(idle))
            server.shell(name=why, commands=[script])
        return
    server.packages(name=why, packages=wanted)


def go_tool(
    why: str,
    name: str,
    module: str,
    version: str,
    *,
    package: str = "",
    tags: Sequence[str] = (),
    roles: Sequence[str] = (),
    pins: Path | None = None,
    sources: Sequence[str] = (),
    share: Sequence[str] = (),
    defines: Mapping[str, str] | None = None,
    go: str = "1.22",
) -> None:
    """Provide the program `name` of a Go module on the host.

    Args:
        version: such as "v1.8.1".
        package: which package of the module to build; its root package when empty.
        tags: build tags.
        pins: a folder with a go.mod that requires the module, and a go.sum with the hash of everything in the
            program. Without it the module's own go.mod is used, checked against Go's checksum database.
        sources: folders of `pins` with the project's own packages, which are built from here; `module` may then be
            the one that this go.mod declares, in the version that the caller gives.
        share: folders and files of the module that the program reads, put into `<work_dir>/tools/share/<name>`.
        defines: string variables by full name, such as "example.org/x/model.BuildNumber", and what the linker
            sets them to. No white space or quotes.
        go: the oldest Go that can build it; with `pins`, go.mod gives it.

    Raises BenchstudyError when the pins have another version.
    """
    if not _plays(roles):
        return
    files = _pinned_files(pins, sources) if pins else {}
    own = bool(sources) and re.search(rf"^module {re.escape(module)}$", files["go.mod"], re.MULTILINE)
    if pins and not own:
        pinned = re.search(rf"^(?:require)?\s+{re.escape(module)} (\S+)", files["go.mod"], re.MULTILINE)
        if pinned is None or pinned[1] != version:
            found = pinned[1] if pinned else "not at all"
            raise BenchstudyError(f"{name}: {version} is asked for, but {pins}/go.mod requires {module} {found}")
    if pins:
        oldest = re.search(r"^go (\S+)", files["go.mod"], re.MULTILINE)
        go = oldest[1] if oldest else go
    if not _has_go(go):
        _require_venv()
    _want(
        {
            "kind": "go",
            "why": why,
            "name": name,
            "version": version,
            "module": module,
            "package": package or module,
            "tags": list(tags),
            "pins": files,
            "share": list(share),
            # Left out when empty: every key here decides whether a program must be rebuilt.
            **({"defines": dict(defines)} if defines else {}),
            "go": go,
            "go_pin": paths.nearest(Path(), GO_REQUIREMENTS).read_text(),
        }
    )


def python_tool(why: str, name: str, requirements: Path, *, module: str = "", roles: Sequence[str] = ()) -> None:
    """Provide the program `name` on the host: `python -m module` (`name` when empty) in its own environment.

    `requirements` pins everything by hash, as `uv pip compile --universal --generate-hashes` writes it; `name` is
    one of the packages in it. Only wheels are installed, so no compiler is needed.

    Raises BenchstudyError when `name` is not pinned there, or not for the host's Python.
    """
    if not _plays(roles):
        return
    text = requirements.read_text()
    version = _pinned_version(name, text, requirements)
    _require_venv()
    _want(
        {
            "kind": "python",
            "why": why,
            "name": name,
            "version": version,
            "module": module or name,
            "requirements": text,
        }
    )


def wanted_programs() -> set[str]:
    """Names of the programs that the study's services, commands and generators start on this host."""
    family, roles, target_roles = host.data.family, host.data.roles, host.data.target_roles
    return (
        needs.started_programs(family, roles)
        | needs.named_tools(family, roles)
        | needs.generator_tools(family, roles, target_roles)
        | needs.commanded_programs(family, roles)
    )


def _pinned_version(name: str, text: str, requirements: Path) -> str:
    """The version of `name` that the host gets. `uv pip compile --universal` may pin one for each range of Pythons."""
    pins = re.findall(rf"^{re.escape(name)}==([^\s;]+)(?:[ \t]*;[ \t]*([^\\\n]+))?", text, re.MULTILINE)
    if not pins:
        raise BenchstudyError(f"{requirements} does not pin {name}")
    ask = f"{shlex.quote(host.data.python)} -c 'import platform; print(platform.python_version())' 2> /dev/null || true"
    python = host.get_fact(Command, command=ask) if len(pins) > 1 else None
    if not python:  # a builder without Python says so itself
        return str(pins[0][0])
    there = {
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
    }
    for version, marker in pins:
        if not marker or Marker(marker).evaluate(there):
            return str(version)
    raise BenchstudyError(f"{requirements} pins no {name} for the host's Python {python}: compile it for that one, too")


def _pinned_files(pins: Path, sources: Sequence[str]) -> dict[str, str]:
    """Path below `pins`: content: go.mod, go.sum, and the Go files of the folders `sources`."""
    files = {file: (pins / file).read_text() for file in ("go.mod", "go.sum")}
    for folder in sources:
        paths = sorted(path for path in (pins / folder).rglob("*.go") if not path.name.endswith("_test.go"))
        files |= {path.relative_to(pins).as_posix(): path.read_text() for path in paths}
    return files


def _has(command: str) -> bool:
    return bool(host.get_fact(Which, command=command))


def _plays(roles: Sequence[str]) -> bool:
    return not roles or bool(set(roles) & set(host.data.roles))


def _want(tool: Mapping[str, Any]) -> None:
    """Later calls replace earlier ones of the same name: two families may request the same tool."""
    others = [known for known in host.data.get("tools", []) if known["name"] != tool["name"]]
    host.data.tools = [*others, dict(tool)]


def _has_go(oldest: str) -> bool:
    """Whether the host's own Go can build it; the builder checks again, and in more places."""
    answer = host.get_fact(Command, command="PATH=$PATH:/usr/local/go/bin GOTOOLCHAIN=local go version || true") or ""
    found = re.search(r"go(\d+(?:\.\d+)*)", answer.removeprefix("go version "))
    return found is not None and _numbers(found[1]) >= _numbers(oldest)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _require_venv() -> None:
    """Debian has virtual environments in a separate package."""
    python = shlex.quote(host.data.python)
    works = host.get_fact(Command, command=f"{python} -c 'import ensurepip, venv; print(1)' 2> /dev/null || true")
    if not works and _has("apt-get"):
        install("virtual environments, for tools that are built on the host", "python3-venv")
