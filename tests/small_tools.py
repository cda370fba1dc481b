"""Two small tools from real pins, one in Go and one in Python, and a host that builds them."""

import json
import logging
import os
import shutil
from dataclasses import dataclass
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import pytest
from conftest import TOOL_STORE, copy_project
from one_host import study_on

from benchstudy.model.study import Study
from benchstudy.provisioning.target import provision_target

HELLO = "v0.0.0-20250915201037-7f05d217867b"
HELLO_HASH = "h1:+gZE2jOdiscYByu0606Uw8Ldir2Cecd39Vq/3IEasRA="
GO_MOD = f"module test.invalid/hello\n\ngo 1.22\n\nrequire golang.org/x/example/hello {HELLO} // indirect\n"
GO_SUM = (
    f"golang.org/x/example/hello {HELLO} {HELLO_HASH}\n"
    f"golang.org/x/example/hello {HELLO}/go.mod h1:UhUKOXx5fMcLZxwL20DUrWWBBoRYG9Jvc8FiwZhRHCI=\n"
)
GO_TOOL = (
    "from pathlib import Path\n"
    "from benchstudy.provisioning.deploy import go_tool\n"
    f"go_tool('a greeting', 'hello', 'golang.org/x/example/hello', {HELLO!r}, pins=Path('envs/hello'),\n"
    "        share=['reverse'])\n"
)
WHEEL_HASH = "708e7481cc80179af0e556bbf0cc00b8444c7321e2700b8d8580231d13017248"
REQUIREMENTS = f"# A comment.\nwheel==0.45.1 \\\n    --hash=sha256:{WHEEL_HASH}\n    # via nothing\n"
PYTHON_TOOL = (
    "from pathlib import Path\n"
    "from benchstudy.provisioning.deploy import python_tool\n"
    "python_tool('a tool for wheels', 'wheel', Path('envs/wheel-requirements.txt'))\n"
)


def with_pins(root: Path, patch: pytest.MonkeyPatch) -> Path:
    """Give the project the pins of both tools and no deploys, except those of a test, and change to its folder."""
    patch.chdir(root)
    patch.delenv(TOOL_STORE)
    envs = root / "envs"
    for deploy in envs.glob("*.py"):
        deploy.unlink()
    (envs / "hello").mkdir()
    (envs / "hello" / "go.mod").write_text(GO_MOD)
    (envs / "hello" / "go.sum").write_text(GO_SUM)
    (envs / "wheel-requirements.txt").write_text(REQUIREMENTS)
    return root


def study_of(work_dir: Path, **host: Any) -> Study:
    families = {
        "file_size": {"backends": [{"name": "disk", "kind": "path", "path": "/var/tmp"}], "sizes": ["1MB"]},
        "fio": {"directories": [{"name": "disk", "path": "/var/tmp"}], "size": "1MiB"},
    }
    return study_on({**(host or {"loopback": True}), "work_dir": str(work_dir)}, families, study="tools")


def provision(root: Path, deploy: str, work_dir: Path, *, keep_downloads: bool = False, **host: Any) -> dict[str, Any]:
    """The facts of the host after that deploy."""
    (root / "envs" / "file_size.py").write_text(deploy)
    study = study_of(work_dir, **host)
    result = provision_target(study, "bench", root / "facts.json", ["file_size"], keep_downloads=keep_downloads)
    assert json.loads((root / "facts.json").read_text())["hosts"]["here"] == result.hosts["here"]
    return result.hosts["here"]


@dataclass(frozen=True)
class Built:
    """Both tools, built from scratch. `downloads`: everything that was fetched and compiled, which should be kept."""

    work: Path
    facts: dict[str, Any]
    said: list[str]
    downloads: Path

    def lend_compiled(self, tools: Path) -> None:
        """Lend what Go has compiled to the builds below `tools`.

        Otherwise each build would compile the standard library again, in a dozen processor seconds. Pinned files are
        downloaded again.
        """
        shutil.copytree(
            self.downloads / "objects", tools / "cache" / "objects", copy_function=os.link, dirs_exist_ok=True
        )


def build(root: Path) -> Built:
    """Both tools, in `root`/work."""
    log, said = logging.getLogger("benchstudy"), BufferingHandler(capacity=1_000)
    level = log.level
    with pytest.MonkeyPatch.context() as patch:
        project = with_pins(copy_project(root / "project").root, patch)
        log.addHandler(said)
        log.setLevel(logging.INFO)
        facts = provision(project, GO_TOOL + PYTHON_TOOL, root / "work", keep_downloads=True)
        log.setLevel(level)
        log.removeHandler(said)
    # Moved away: a test may look at what is there as any later run finds it.
    shutil.move(root / "work" / "tools" / "cache", root / "downloads")
    return Built(root / "work", facts, [record.getMessage() for record in said.buffer], root / "downloads")
