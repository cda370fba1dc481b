"""Load of the family load_test: simulated users by Locust, bounded or by a feedback rule.

`config` is what a study says, `command` and `run` start Locust on the load hosts, `on_host` is what runs there,
whatever the users do. What users of Mattermost do lies in envs/mattermost/users.
"""

from pathlib import Path

from benchstudy.families.load_test import system_files

LIBRARY = "load-users"  # by this name the package on_host is shipped to a host
PACKAGE = "load_users"  # what it is called there
LOCUSTFILE = "locustfile.py"
_ON_HOST = Path(__file__).with_name("on_host")


def scripts() -> dict[str, Path]:
    """Path in the library to the file here, of what is shipped to a load host. Raises BenchstudyError when the project
    has no users of the system.
    """
    modules = {f"{PACKAGE}/{path.name}": path for path in sorted(_ON_HOST.glob("*.py")) if path.name != LOCUSTFILE}
    users = {f"{PACKAGE}/{system_files.SYSTEM}/{name}": path for name, path in system_files.below("users").items()}
    return {LOCUSTFILE: _ON_HOST / LOCUSTFILE, **modules, **users}
