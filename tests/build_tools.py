"""Builds the programs that tests start, before any of them does: `python tests/build_tools.py`, first in `make test`.

Compilers keep every processor busy for minutes. A test beside them that has a real server meet its memory limit, or a
real load its rate, fails for reasons that are not its own. What is there already takes seconds.
"""

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from conftest import CHECKOUT, use_common_tool_store
from sshd_hosts import SshdHost

from benchstudy.model.study import Study, parse_study
from benchstudy.provisioning.target import provision_target

# Together they start everything that a deploy of ours builds.
STUDIES = ("config/config.yaml", "config/studies/tessera-log.yaml")


def main() -> None:
    logging.basicConfig(format="tools: %(message)s", level=logging.INFO)
    use_common_tool_store()
    os.chdir(CHECKOUT)
    with tempfile.TemporaryDirectory(prefix="benchstudy-build-") as folder, SshdHost(Path(folder, "sshd")) as sshd:
        here = {**sshd.host.model_dump(exclude_none=True, exclude_defaults=True), "work_dir": f"{folder}/work"}
        for study, target in _targets(here):
            # What cannot be had is said, and is the tests' own affair, each in its words.
            provision_target(study, target, Path(folder, "facts.json"))


def _targets(host: dict[str, str]) -> Iterator[tuple[Study, str]]:
    """Every target of the studies, with `host` in place of all of theirs."""
    for file in STUDIES:
        declared = yaml.safe_load((CHECKOUT / file).read_text())
        study = parse_study({**declared, "hosts": dict.fromkeys(declared["hosts"], host)})
        yield from ((study, target) for target in study.targets)


if __name__ == "__main__":
    main()
