"""How long `benchstudy import` takes for a folder of fio outputs, by the number of files.

The files are copies of a captured output, each a file with its own name and time, so that none is a duplicate.
The time per file must not grow with the number of files.

    python benchmarks/import_speed.py [FILES …]
"""

import sys
import tempfile
import time
from pathlib import Path

from benchstudy.commands.importing import import_outputs
from benchstudy.model.studyfile import parse_study

CAPTURED = Path(__file__).parents[1] / "tests/data/fio/fio-3.33-latency-plus.json"
STUDY = {
    "study": "archive",
    "hosts": {"here": {"loopback": True}},
    "targets": {"machine": {"roles": {"sut": "here"}}},
    "families": {"fio": {}},
}
SETTINGS = 160  # distinct cases; the other files repeat them


def main(counts: list[int]) -> None:
    text, study = CAPTURED.read_text(), parse_study(STUDY)
    print("| files | cases | s | ms per file |\n|---|---|---|---|")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            outputs = Path(folder) / "outputs"
            outputs.mkdir()
            for number in range(count):
                copy = text.replace('"jobname" : "test"', f'"jobname" : "setting-{number % SETTINGS}"')
                copy = copy.replace('"timestamp" : 1795201707', f'"timestamp" : {1795201707 + number}')
                (outputs / f"{number:05}.json").write_text(copy)
            started = time.monotonic()
            outcome = import_outputs(Path(folder), study, None, [outputs])
            took = time.monotonic() - started
            assert len(outcome.imported) == count, outcome.refused[:1]
            cases = len({trial.record.case for _, trial in outcome.imported})
            print(f"| {count} | {cases} | {took:.1f} | {1000 * took / count:.1f} |", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 900, 4500])
