"""The data set of load_test: made and put into databases by what is shipped to a host as the library `load-data`.

It lies in envs/mattermost/data, and runs with the host's own Python 3.9 or newer and the standard library.
"""

from pathlib import Path

from benchstudy.families.load_test import system_files

LIBRARY = "load-data"  # by this name it is shipped to a host
ACCOUNTS_SCHEMA = 1  # of accounts.json, as seed.py writes it


def scripts() -> dict[str, Path]:
    """File by its name on the host. Raises BenchstudyError when the project has none."""
    return system_files.below("data")
