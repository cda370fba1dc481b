"""Turns a study that names systems into one that describes their services itself. Pure; runs before validation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchstudy.model import registry
from benchstudy.model.catalogue.entries import Entries
from benchstudy.model.catalogue.folders import Catalogue, own_folders
from benchstudy.model.catalogue.instances import Instances
from benchstudy.model.catalogue.merging import above
from benchstudy.model.errors import StudyError
from benchstudy.model.names import nearest


def expanded(study: Mapping[str, Any], beside: Path | None = None) -> dict[str, Any]:
    """`study`, as YAML gives it, with systems replaced by ordinary services and entries. The rest is unchanged.

    `beside`: the folder of its file, whose systems it may name. `systems` of the result lists the study's own folders
    of systems as absolute paths, for provisioning. Raises StudyError that names the field and the fix.
    """
    families = study.get("families")
    own = own_folders(study.get("systems"), beside)
    result = dict(study)
    if own:
        result["systems"] = [str(folder) for folder in own]
    if isinstance(families, Mapping) and any(map(_speaks_of_systems, families.values())):
        catalogue = Catalogue(own)
        result["families"] = {name: _family(str(name), block, catalogue) for name, block in families.items()}
    return result


def _speaks_of_systems(block: Any) -> bool:
    """Whether anything in a family's block may be a system: a quick check, so that most studies need no catalogue."""
    if not isinstance(block, Mapping):
        return False
    services = block.get("services")
    parts = list(services.values()) if isinstance(services, Mapping) else []
    for key, value in block.items():
        if key != "services":
            parts += value if isinstance(value, list) else [value]
    return any(isinstance(part, Mapping) and ("with" in part or isinstance(part.get("system"), str)) for part in parts)


def _family(name: str, block: Any, catalogue: Catalogue) -> Any:
    if name not in registry.packages() or not _speaks_of_systems(block):
        return block
    config = registry.get(name).Config
    takes = config.takes_systems
    where = f"families.{name}"
    _refuse_elsewhere(where, block, [*takes, "services"])
    instances = Instances(f"{where}.services", block.get("services"), catalogue)
    entries = [Entries(name, key, block[key], takes[key], instances) for key in takes if key in block]
    result = {key: value for key, value in block.items() if key != "services"}
    result |= {each.key: each.expanded() for each in entries}
    described = block.get("services", {})
    services = instances.services() if isinstance(described, Mapping) else described  # others are reported elsewhere
    result |= {"services": services} if services else {}
    for key, offered in instances.offered_to(name, takes, list(config.model_fields)).items():
        said = block.get(key, {})
        result[key] = above(offered, said) if isinstance(said, Mapping) else said
    return result


def _refuse_elsewhere(where: str, block: Mapping[str, Any], known: list[str]) -> None:
    """Raises StudyError for a system in a place where the family takes none."""
    for key, value in block.items():
        parts = value if isinstance(value, list) else [value]
        if key not in known and any(isinstance(p, Mapping) and isinstance(p.get("system"), str) for p in parts):
            raise StudyError(f"{where}.{key}: its entries take no system: {nearest(str(key), known)}")
