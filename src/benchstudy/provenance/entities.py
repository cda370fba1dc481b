"""The entities of a crate's description. They refer to each other, and each is written once."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

METADATA = "ro-crate-metadata.json"
_VERSION = "1.1"
_WORKFLOW_PROFILE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
STATUS = {True: "http://schema.org/CompletedActionStatus", False: "http://schema.org/FailedActionStatus"}
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    _WORKFLOW_PROFILE: "Workflow RO-Crate",
}

Reference = dict[str, str]


def address(name: str) -> str:
    """A path in the crate, in the form that references use."""
    return quote(name, safe="/,=:+@~!$&'()*;")


def fragment(*parts: str) -> str:
    """The identifier of something other than a file: `#tool/wrk/0a1b`. Different parts give different identifiers."""
    return "#" + "/".join(quote(part, safe="=") for part in parts)


def to(name: str) -> Reference:
    """A reference to the file or, with a slash at its end, to the folder of this name."""
    return {"@id": address(name)}


class Graph:
    """The entities of one crate. Empty properties are left out."""

    def __init__(self) -> None:
        # Imported here because the import takes longer than most commands.
        from rocrate.model.contextentity import ContextEntity
        from rocrate.rocrate import ROCrate

        self._crate, self._entity = ROCrate(version=_VERSION), ContextEntity
        self._known: set[str] = set()

    def add(self, identifier: str, kind: str | list[str], /, **properties: Any) -> Reference:
        """Add an entity unless one with this identifier exists. Returns the reference to it."""
        if identifier not in self._known:
            self._known.add(identifier)
            self._crate.add(self._entity(self._crate, identifier, properties={"@type": kind, **_filled(properties)}))
        return {"@id": identifier}

    def describe_root(self, **properties: Any) -> None:
        """Set properties of the crate itself. Empty ones are left out."""
        for name, value in _filled(properties).items():
            self._crate.root_dataset[name] = value

    def document(self) -> dict[str, Any]:
        """JSON-LD, its entities in one order: the description itself, the root, all others by identifier."""
        descriptor = self._crate.metadata
        descriptor["conformsTo"] = [{"@id": descriptor.profile}, {"@id": _WORKFLOW_PROFILE}]
        descriptor.extra_terms.update(_TERMS)
        document = descriptor.generate()
        first = {METADATA: 0, "./": 1}
        document["@graph"].sort(key=lambda entity: (first.get(entity["@id"], len(first)), entity["@id"]))
        return document


def _filled(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties without null, which RO-Crate does not have, and with a list of one item written as that item."""
    plain = {n: value[0] if isinstance(value, list) and len(value) == 1 else value for n, value in properties.items()}
    return {name: value for name, value in plain.items() if value not in (None, "", [])}


class Files:
    """References to the described files of a crate, by name."""

    def __init__(self, references: Mapping[str, Reference]):
        self._references, self._names = references, sorted(references)

    def named(self, names: Iterable[str]) -> list[Reference]:
        """Those that exist."""
        return [self._references[name] for name in names if name in self._references]

    def names_below(self, folder: str) -> Sequence[str]:
        """Names of all files in `folder`, however deep."""
        # "0" comes right after "/".
        return self._names[bisect.bisect(self._names, f"{folder}/") : bisect.bisect_left(self._names, f"{folder}0")]

    def below(self, folder: str) -> list[Reference]:
        """References to all files below a folder of the crate."""
        return self.named(self.names_below(folder))
