"""Build the programs that tests start: `python tests/build_tools.py`. `make test` starts with it (builds.py).

If everything is already built, this takes seconds. An argument is the number of an open file whose lock ends when
everything is built; what was downloaded and compiled on the way is removed after that.
"""

import fcntl
import logging
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import yaml
from conftest import CHECKOUT, use_common_tool_store
from s3_server import built_versitygw
from sshd_hosts import SshdHost

from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study, with_systems
from benchstudy.provisioning.target import provision_target

# Together these studies start everything that our deploys build. If two of them have a family, the later one starts all
# that the earlier one does.
STUDIES = ("config/config.yaml", "config/studies/tessera-log.yaml")


def main() -> None:
    logging.basicConfig(format="tools: %(message)s", level=logging.INFO)
    use_common_tool_store()
    os.chdir(CHECKOUT)
    # Its download takes longer than what it compiles, so it comes first: fast tests run meanwhile.
    with suppress(AssertionError):
        built_versitygw(keep_downloads=True)
    with tempfile.TemporaryDirectory(prefix="benchstudy-build-") as folder, SshdHost(Path(folder, "sshd")) as sshd:
        here = sshd.described(f"{folder}/work")
        # A program that cannot be built is reported; the tests that need it say so themselves.
        provision_target(one_study(here), "all", Path(folder, "facts.json"), keep_downloads=True)
    for lock in sys.argv[1:]:
        fcntl.flock(int(lock), fcntl.LOCK_UN)
    os.nice(19)  # removing gigabytes of files takes half a minute, and tests run by now
    try:
        built_versitygw()
    except AssertionError as error:
        logging.warning("versitygw: %s", error)


def one_study(host: dict[str, str]) -> Study:
    """All families on one target in every role. One study per family would compile their common parts again."""
    declared = [with_systems(yaml.safe_load((CHECKOUT / file).read_text())) for file in STUDIES]
    families = {name: {**block, "targets": None} for each in declared for name, block in each["families"].items()}
    # First what compiles one large package at a time: fast tests have the other processor meanwhile.
    families = {"load_test": families.pop("load_test"), **families}
    roles = sorted({role for each in declared for target in each["targets"].values() for role in target["roles"]})
    targets = {"all": {"roles": dict.fromkeys(roles, "here")}}
    return parse_study({"study": "builds", "hosts": {"here": host}, "targets": targets, "families": families})


if __name__ == "__main__":
    main()
