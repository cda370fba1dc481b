"""System-specific scripts that are sent to hosts. They lie beside the system's pins in envs/."""

from pathlib import Path

from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError

SYSTEM = "mattermost"
# The library on a host whose scripts make the data set and import it into databases. They run with the host's own
# Python 3.9 or newer and the standard library.
DATA_LIBRARY = "load-data"
ACCOUNTS_SCHEMA = 1  # of accounts.json, as seed.py writes it
_SENT = (".py", ".sh")


def below(part: str) -> dict[str, Path]:
    """Map names to the files of envs/<SYSTEM>/<part>. Raises BenchstudyError if there are none."""
    folder = paths.nearest(paths.project_root(), f"envs/{SYSTEM}/{part}")
    found = {path.name: path for path in sorted(folder.glob("*")) if path.suffix in _SENT}
    if not found:
        raise BenchstudyError(f"there are no scripts in {folder}: they come with the project, restore that folder")
    return found
