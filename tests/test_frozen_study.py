"""A command's jobs read the study from a file of its own, which no later command changes."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchstudy.jobs import running
from benchstudy.model import paths

STUDY = {
    "study": "s",
    "hosts": {"h": {"address": "192.0.2.1"}},
    "targets": {"t": {"roles": {"sut": "h"}}},
    "families": {"command": {"commands": [{"name": "x", "argv": ["true"]}]}},
}
_JOB = "from benchstudy.jobs.job import job\nwith job() as (root, study, told): print(study.blocks)"


@pytest.fixture
def frozen(tmp_path, monkeypatch):
    """A study of 3 blocks that a command has frozen, after which another command got 7 blocks."""
    monkeypatch.setenv(paths.FROZEN_STUDY, "of an outer command")
    paths.declared_study(tmp_path, "s").parent.mkdir(parents=True)
    for blocks in (7, 3):
        running._freeze(tmp_path, "s", json.dumps(STUDY | {"blocks": blocks}))
    found = paths.declared_study(tmp_path, "s")
    later = found.parents[1] / "declared.json"
    later.write_text(json.dumps(STUDY | {"blocks": 7}))
    return found


def job(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # Commands that other tests began in this process have set variables.
    mine = {name: value for name, value in os.environ.items() if not name.startswith("BENCHSTUDY_")}
    mine[paths.FROZEN_STUDY] = os.environ[paths.FROZEN_STUDY]
    told = ["--study", "s", "--log", str(root / "log")]
    return subprocess.run(
        [sys.executable, "-c", _JOB, *told], cwd=root, env=mine | environment, capture_output=True, text=True
    )


def test_jobs_get_the_study_with_which_their_command_began(frozen):
    root = frozen.parents[4]
    assert frozen.stem == hashlib.sha256(frozen.read_bytes()).hexdigest()
    assert len(list(frozen.parent.iterdir())) == 2 and not frozen.stat().st_mode & 0o222
    of_the_command = job(root)
    assert of_the_command.stdout.strip() == "3", of_the_command.stderr
    # A job that belongs to no command of this study gets the newest study.
    assert job(root, **{paths.FROZEN_STUDY: ""}).stdout.strip() == "7"


def test_a_job_refuses_a_frozen_study_that_is_another(frozen):
    root = frozen.parents[4]
    frozen.chmod(0o644)
    frozen.write_text(json.dumps(STUDY | {"blocks": 5}))
    assert "was altered or removed after this command began" in job(root).stderr
    frozen.unlink()
    assert "was altered or removed after this command began" in job(root).stderr
