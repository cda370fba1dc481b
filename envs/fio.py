"""What fio and the small-file test need: fio itself, and the shell that the page's loops are written for."""

from benchstudy.provisioning.deploy import install

install("fio, and bash with the core tools for the page's loops", "fio", "bash", "coreutils", roles=["sut"])
