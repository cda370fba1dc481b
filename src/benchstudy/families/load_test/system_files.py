"""System-specific scripts that are sent to hosts. They lie beside the system's pins in envs/."""

from pathlib import Path

from benchstudy.model import paths
from benchstudy.model.errors import BenchstudyError

SYSTEM = "mattermost"
_SENT = (".py", ".sh")


def below(part: str) -> dict[str, Path]:
    """Map names to the files of envs/<SYSTEM>/<part>. Raises BenchstudyError if there are none."""
    folder = paths.nearest(paths.project_root(), f"envs/{SYSTEM}/{part}")
    found = {path.name: path for path in sorted(folder.glob("*")) if path.suffix in _SENT}
    if not found:
        raise BenchstudyError(f"there are no scripts in {folder}: they come with the project, restore that folder")
    return found
