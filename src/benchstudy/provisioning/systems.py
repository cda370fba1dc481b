"""Where the programs that a study starts on a host come from, according to the catalogue: packages or builds."""

from collections.abc import Iterable
from pathlib import Path

from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.catalogue.system import DEPLOY, Found, Package
from benchstudy.provisioning.deploy import install, wanted_programs


def install_systems(systems: Iterable[Found]) -> list[Path]:
    """Install the packages with the programs that the family's services, commands and generators start on this host.

    Returns the deploys of systems whose programs are built, to be run.
    """
    wanted = wanted_programs()
    chosen: dict[str, Package] = {}
    deploys = []
    for found in systems:
        chosen |= {name: p for name, p in found.system.packages.items() if wanted & {*p.programs}}
        if wanted & {*found.system.builds}:
            deploys.append(found.folder / DEPLOY)
    if chosen:
        install(
            "what the study's services, commands and generators start",
            *chosen,
            dnf=[package.dnf or name for name, package in chosen.items()],
            apk=[package.apk or name for name, package in chosen.items()],
            programs=sorted({program for package in chosen.values() for program in package.programs} & wanted),
            idle=sorted({service for package in chosen.values() for service in package.starts}),
        )
    return deploys


def started_by(packages: Iterable[str]) -> list[str]:
    """The services that these packages (Debian's names) would start by themselves, as far as a system declares them."""
    known = {name: package for found in Catalogue().sound() for name, package in found.system.packages.items()}
    return sorted({service for name in packages if name in known for service in known[name].starts})
