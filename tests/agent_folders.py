"""The agent as it lies on a host, with what a family runs beside it."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from benchstudy.hosts.agent_files import agent_sources, write_agent
from benchstudy.model import registry


@cache
def agent_folder(family: str) -> Path:
    """A folder to run as `python3 -I -S FOLDER COMMAND`; it is gone when the tests are."""
    folder = Path(tempfile.mkdtemp(prefix="benchstudy-test-agent-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_agent(folder, agent_sources(registry.get(family).extensions))
    return folder
