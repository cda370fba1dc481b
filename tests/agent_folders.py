"""The agent as it is on a host, with the code that families run next to it."""

import atexit
import importlib
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

from benchstudy import agent
from benchstudy.hosts.agent_files import agent_sources, write_agent
from benchstudy.model import registry


@cache
def agent_folder(family: str) -> Path:
    """A folder to run as `python3 -I -S FOLDER COMMAND`; it is removed after the tests."""
    folder = Path(tempfile.mkdtemp(prefix="benchstudy-test-agent-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_agent(folder, agent_sources(registry.get(family).extensions))
    return folder


class OnHosts:
    """Modules that run on hosts, where they import each other by their bare names."""

    def __init__(self) -> None:
        families = [folder for name in registry.names() for folder in registry.get(name).extensions]
        self._folders = [str(folder) for folder in (Path(agent.__file__).parent, *families)]
        self._known: dict[str, ModuleType] = {}

    def module(self, name: str) -> ModuleType:
        """Import a module by its bare name; other packages' modules of these names stay in place."""
        ours = {path.stem for folder in self._folders for path in Path(folder).glob("*.py") if path.stem != "__main__"}
        theirs = {known: sys.modules.pop(known) for known in ours & sys.modules.keys()}
        sys.modules.update(self._known)
        sys.path[:0] = self._folders
        try:
            return importlib.import_module(name)
        finally:
            del sys.path[: len(self._folders)]
            self._known.update({known: sys.modules.pop(known) for known in ours & sys.modules.keys()})
            sys.modules.update(theirs)
