"""Compare what was just stored, say which sessions could not be held, and fail if there are any."""

import argparse
import sys
from pathlib import Path

from benchstudy.measuring.confirmed import RawAltered, confirm
from benchstudy.measuring.sealed import read_index
from benchstudy.model import hints, paths
from benchstudy.model.files import disk_trouble

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--held", type=Path, required=True, help="file to write when all were held")
parser.add_argument("--study", required=True, help="the study whose sessions the running command has recorded")
told = parser.parse_args()
held, problems = [], []
try:
    sessions = [Path(line) for line in paths.declared_sessions(Path(), told.study).read_text().splitlines()]
    for path in sessions:
        index = read_index(path)
        if index is None:
            problems.append(f"{path} was damaged, and is made again")
            continue
        name = f"{index['family']} on {index['target']}"
        if index["problem"]:
            problems.append(f"{name}: {index['problem']}")
        else:
            held.append(f"{name}: {len(index['trials'])} trials\n")
    confirm(Path(), [path.parent for path in sessions])
    if not problems:
        told.held.write_text("".join(held))
except RawAltered as error:
    sys.exit(str(error))
except OSError as error:
    sys.exit(disk_trouble(error) or str(error))
if problems:
    sys.exit(
        f"{len(problems)} of {len(sessions)} sessions could not be held. The reports show all other trials. "
        f"To try again, run {hints.snakemake()}:\n" + "\n".join(problems)
    )
