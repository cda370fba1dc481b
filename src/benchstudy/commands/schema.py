"""`benchstudy schema`: the schema with which editors check a study, complete its keys and explain them."""

import argparse
import os
from pathlib import Path

from benchstudy.commands.systems import catalogue_of
from benchstudy.model.files import as_json, write_atomically


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`benchstudy schema [-o FILE] [--study STUDY]`."""
    schema = commands.add_parser("schema", help="print the JSON Schema of a study, for editors that check studies")
    schema.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it to this file instead")
    schema.add_argument("--study", type=Path, metavar="STUDY", help="include the study's own systems")
    schema.set_defaults(command=_schema)


def _schema(arguments: argparse.Namespace) -> int:
    from benchstudy.model.schema import study_schema

    text = as_json(study_schema(catalogue_of(arguments.study)))
    output: Path | None = arguments.output
    if output is None:
        print(text, end="")
    elif output.exists() and not output.is_file():  # a device or a pipe, such as /dev/stdout, which nothing may replace
        output.write_text(text, encoding="utf-8")
    else:
        write_atomically(Path(os.path.realpath(output)) if output.is_symlink() else output, text)
    return 0
