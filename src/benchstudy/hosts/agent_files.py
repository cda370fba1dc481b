"""The files that make up a host's agent: the modules of `benchstudy.agent`, and those that families run beside them."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from benchstudy import agent
from benchstudy.hosts.errors import HostRefused

# Runs before the agent is there, on whatever Python the host has.
BOOTSTRAP = (
    (Path(agent.__file__).parent / "exposure.py").read_text(encoding="utf-8")
    + """
import hashlib, json, sys
work, agent = sys.argv[1:3]
problem = None
if sys.version_info < (3, 9):
    problem = "its Python is %d.%d, and 3.9 or newer is needed: name one as the host's python" % sys.version_info[:2]
elif os.path.islink(work):
    problem = "the work folder %s is a symbolic link; set work_dir to the real path" % work
elif os.path.realpath(work) in ("/", os.path.realpath(os.path.expanduser("~"))):
    problem = "the work folder %s is the root folder or the home; set work_dir to one below it" % work
else:
    try:
        os.makedirs(work, 0o700, exist_ok=True)
        found = os.stat(work)
        above = replaceable_in(os.path.dirname(os.path.realpath(work)), (0, os.geteuid()))
        if found.st_uid != os.geteuid():
            problem = "the work folder %s belongs to another user; set work_dir to one of your own" % work
        elif writable_by_others(found):
            problem = "others may have written what is in the work folder %s, because its mode is " % work
            problem += "%04o; chmod 0700 it if you trust all that is in it, else remove it" % (found.st_mode & 0o7777)
        elif not os.access(work, os.W_OK | os.X_OK):
            problem = "the work folder %s is not writable; set work_dir to one that is" % work
        elif above:
            problem = "the work folder %s lies in %s, where another user may replace it; forbid others " % (work, above)
            problem += "and its group to write there, or set work_dir to one below folders of root and of your own"
    except OSError as error:
        problem = "the work folder %s cannot be made: %s; set work_dir to another one" % (work, error.strerror)
digest = None
if problem is None and os.path.isdir(agent):
    found = hashlib.sha256()
    for name in sorted(n for n in os.listdir(agent) if n.endswith(".py")):
        with open(os.path.join(agent, name), "rb") as file:
            found.update(name.encode() + b"\\0" + file.read() + b"\\0")
    digest = found.hexdigest()
print(json.dumps({"problem": problem, "digest": digest}))
"""
)


@cache
def agent_sources(extensions: tuple[Path, ...] = ()) -> dict[str, bytes]:
    """The agent's files by name, with those of the `extensions`: all in one folder, as on a host.

    They are read once, so that what is deployed is what was hashed, even after an edit. Raises HostRefused when two
    modules have the same name.
    """
    found: dict[str, bytes] = {}
    for folder in (Path(agent.__file__).parent, *dict.fromkeys(extensions)):
        for path in sorted(folder.glob("*.py")):
            if path.name == "__init__.py" and folder in extensions:
                continue
            if path.name in found:
                raise HostRefused(f"{path}: the agent already has a module of this name; rename it")
            found[path.name] = path.read_bytes()
    return dict(sorted(found.items()))


def write_agent(folder: Path, sources: Mapping[str, bytes]) -> None:
    """Write the agent's files into a folder, which can then be run."""
    for name, content in sources.items():
        Path(folder, name).write_bytes(content)


def digest(sources: Mapping[str, bytes]) -> str:
    """SHA-256 of names and contents, as BOOTSTRAP computes it on a host."""
    found = hashlib.sha256()
    for name, content in sources.items():
        found.update(name.encode() + b"\0" + content + b"\0")
    return found.hexdigest()
