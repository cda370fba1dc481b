"""The data set of load_test: made and put into databases by what is shipped to a host as the library `load-data`.

What lies in `on_host` runs there, with the host's own Python 3.9 or newer and the standard library.
"""

from pathlib import Path

LIBRARY = "load-data"  # by this name it is shipped to a host
ACCOUNTS_SCHEMA = 1  # of accounts.json, as seed.py writes it


def scripts() -> dict[str, Path]:
    """File by its name on the host."""
    return {path.name: path for path in (Path(__file__).parent / "on_host").iterdir() if path.suffix in (".py", ".sh")}
