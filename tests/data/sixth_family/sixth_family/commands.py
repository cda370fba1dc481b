"""The family's own command: `benchstudy nap`."""

import time
from typing import Any


def add_commands(commands: Any) -> None:
    parser = commands.add_parser("nap", help="take a nap")
    parser.add_argument("--length", type=float, default=0.001)
    parser.set_defaults(command=lambda arguments: print("rested") or time.sleep(arguments.length) or 0)
