"""A session in a process of its own, which a test can kill."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HOLD = """
import json, pathlib, sys
from benchstudy.measuring.session import hold_session
from benchstudy.model.studyfile import parse_study
(plan,) = parse_study(json.load(sys.stdin)).sessions()
hold_session(pathlib.Path(sys.argv[1]), plan)
"""


def start_session(root: Path, study: Mapping[str, Any]) -> subprocess.Popen[str]:
    """The only session of `study`, in the project `root`."""
    controller = subprocess.Popen([sys.executable, "-c", _HOLD, root], stdin=subprocess.PIPE, text=True)
    controller.stdin.write(json.dumps(study))
    controller.stdin.close()
    return controller
