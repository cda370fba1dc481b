"""Imported by the fork server of warm_snakemake.py: Snakemake looks for plug-ins, as each command would do again."""

from snakemake.cli import get_argument_parser

get_argument_parser()  # it keeps what it finds for the life of the process
