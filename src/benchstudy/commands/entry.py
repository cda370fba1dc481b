"""What the executable `benchstudy` starts. It imports nothing slow: Ctrl-C counts from the first moment."""

import sys


def main() -> int:
    """Run `benchstudy` with what was typed. Returns the exit status."""
    try:
        from benchstudy.commands import cli

        return cli.main()
    except KeyboardInterrupt:
        print("benchstudy: interrupted", file=sys.stderr)
        return 130
