"""Imported by the fork server of warm_snakemake.py: Snakemake looks for plug-ins, as each command would do again."""

import gc
import os

from snakemake.cli import get_argument_parser

os.environ.pop("PYTHONPATH", None)  # the server found this file by it; what it starts shall not look in tests/
get_argument_parser()  # it keeps what it finds for the life of the process
gc.freeze()  # no fork visits and copies what was imported
