"""Say which sessions could not be held, and fail if there is one: confirm_sessions.py CONFIRMATION SESSION_JSON …"""

import json
import sys
from pathlib import Path

confirmation, *indexes = map(Path, sys.argv[1:])
held, problems = [], []
for path in indexes:
    index = json.loads(path.read_text())
    name = f"{index['family']} on {index['target']}"
    if index["problem"]:
        problems.append(f"{name}: {index['problem']}")
    else:
        held.append(f"{name}: {len(index['trials'])} trials\n")
if problems:
    sys.exit(
        "these sessions could not be held (the reports show what there is; the same command tries again):\n"
        + "\n".join(problems)
    )
confirmation.write_text("".join(held))
