"""Load of the family load_test: simulated users of a chat server by Locust, bounded or by a feedback rule.

`config` is what a study says, `command` and `run` start Locust on the load hosts, `on_host` is what runs there.
"""

from pathlib import Path

LIBRARY = "load-users"  # by this name the package on_host is shipped to a host
PACKAGE = "load_users"  # what it is called there
LOCUSTFILE = "locustfile.py"
_ON_HOST = Path(__file__).with_name("on_host")


def scripts() -> dict[str, Path]:
    """Path in the library to the file here, of what is shipped to a load host."""
    modules = {f"{PACKAGE}/{path.name}": path for path in sorted(_ON_HOST.glob("*.py")) if path.name != LOCUSTFILE}
    return {LOCUSTFILE: _ON_HOST / LOCUSTFILE, **modules}
