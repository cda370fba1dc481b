"""Which code measured: a digest of all that decides what is executed, so that a study which mixes two can be told."""

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_COMMON = ("measuring/trial.py", "measuring/state.py", "hosts/agent.py", "hosts/commands.py", "hosts/services.py")


def instrument_sha256(family: str, package: Path = _PACKAGE) -> str:
    """Of the measuring code of a family: every file of `instrument_files`, by name and content."""
    digest = hashlib.sha256()
    for path in instrument_files(family, package):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def instrument_files(family: str, package: Path = _PACKAGE) -> list[Path]:
    """The agent, what all families share, and the family's own files but its page."""
    own = [p for p in package.glob(f"families/{family}/**/*") if p.is_file() and "__pycache__" not in p.parts]
    own = [p for p in own if "page" not in p.parts]
    return sorted({*package.glob("agent/*.py"), *(package / name for name in _COMMON), *own})
