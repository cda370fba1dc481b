"""The data set of load_test: the library `load-data`, shipped to a host, makes it and imports it into databases.

It lies in envs/mattermost/data, and runs with the host's own Python 3.9 or newer and the standard library.
"""

from pathlib import Path

from benchstudy.families.load_test import system_files

LIBRARY = "load-data"  # its name on a host
ACCOUNTS_SCHEMA = 1  # of accounts.json, as seed.py writes it


def scripts() -> dict[str, Path]:
    """Map names on the host to files of the project. Raises BenchstudyError if the project has none."""
    return system_files.below("data")
