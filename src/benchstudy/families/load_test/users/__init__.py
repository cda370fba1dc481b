"""Load of the family load_test: users simulated by Locust, a fixed number or one that a feedback rule finds.

`config` describes the study's keys, `site` what is loaded. `command` and `run` start Locust on the load hosts.
`on_host` runs there and is the same for all systems. The actions of Mattermost's users are in envs/mattermost/users.
"""

from pathlib import Path

from benchstudy.families.load_test import system_files

LIBRARY = "load-users"  # name of the package on_host when it is shipped to a host
PACKAGE = "load_users"  # its name as a Python package there
LOCUSTFILE = "locustfile.py"
_ON_HOST = Path(__file__).with_name("on_host")


def scripts() -> dict[str, Path]:
    """Map paths in the library to the files to ship to a load host.

    Raises BenchstudyError if the project has no users of the system.
    """
    modules = {f"{PACKAGE}/{path.name}": path for path in sorted(_ON_HOST.glob("*.py")) if path.name != LOCUSTFILE}
    users = {f"{PACKAGE}/{system_files.SYSTEM}/{name}": path for name, path in system_files.below("users").items()}
    return {LOCUSTFILE: _ON_HOST / LOCUSTFILE, **modules, **users}
