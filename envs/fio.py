"""Installs fio, and the shell for the loops of the small-files test."""

from pyinfra import host

from benchstudy.model.clients import makes_load
from benchstudy.provisioning.deploy import install

clients = host.data.family.get("clients")
if makes_load(host.data.roles, host.data.target_roles) if clients else "sut" in host.data.roles:
    install("fio, and bash with the core tools for the page's loops", "fio", "bash", "coreutils")
