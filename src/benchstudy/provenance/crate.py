"""`benchstudy crate`: packs a study, its raw files, its reports and their software into one file."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from benchstudy.measuring.checked import SUMS
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.study import Study
from benchstudy.provenance.contents import Contents, Part, gather
from benchstudy.provenance.entities import METADATA
from benchstudy.provenance.graph import metadata
from benchstudy.provenance.leaks import Secrets
from benchstudy.provenance.words import readme
from benchstudy.report.zips import chunks, write_zip

log = logging.getLogger("benchstudy")


@dataclass(frozen=True)
class Packed:
    """A written crate. `sha256` is that of the whole file; `not_looked_for` are variables with unknown secrets."""

    path: Path
    sha256: str
    size: int
    files: int
    trials: int
    not_looked_for: tuple[str, ...]


def build_crate(root: Path, study: Study, archive: Path, accepted: Collection[str] = ()) -> Packed:
    """Pack `study` into `archive`; the same files give the same bytes.

    `accepted`: files in the crate that somebody checked, and that only look as if they held a secret.
    Raises CorruptTrial for an altered raw file, SecretFound for a secret, BenchstudyError for what does not exist yet.
    Then `archive` stays as it was.
    """
    contents = gather(root, study)
    secrets = Secrets.of(contents.declared)
    parts = _described(contents)
    files = [(part.name, part.size, _checked(part, secrets, accepted)) for part in parts]
    # Readers of crates expect each described folder to be an entry.
    write_zip(archive, [*files, *((f"{folder}/", 0, ()) for folder in _folders(parts))])
    digest = Part.of("", archive)
    packed = Packed(archive, digest.sha256, digest.size, len(parts), len(contents.trials), secrets.unknown)
    log.info("%s: %d files, %d trials, SHA-256 %s", archive.name, packed.files, packed.trials, packed.sha256)
    return packed


def _described(contents: Contents) -> list[Part]:
    """All files, then their description and sums, so that a secret is reported for the file that it comes from."""
    parts = [*contents.parts, Part.of("README.md", readme(contents).encode())]
    for part in parts:
        if "\n" in part.name or "\\" in part.name:
            # Only versions before 0.1.0 sealed such a name. A trial that was discarded and altered is not packed.
            first = "discard its trial, and then " if part.name.startswith("data/raw/") else ""
            raise BenchstudyError(f"{part.name!r}: {SUMS} cannot list this name; {first}rename the file")
    parts.append(Part.of(METADATA, metadata(contents, parts).encode()))
    sums = "".join(f"{part.sha256}  {part.name}\n" for part in sorted(parts, key=lambda part: part.name))
    return [*parts, Part.of(SUMS, sums.encode())]


def _folders(parts: list[Part]) -> list[str]:
    return sorted({parent.as_posix() for part in parts for parent in PurePosixPath(part.name).parents} - {"."})


def _checked(part: Part, secrets: Secrets, accepted: Collection[str]) -> Iterator[bytes]:
    """The content, searched for secrets. Raises BenchstudyError if it is not what was listed."""
    digest = sha256()
    for chunk in secrets.refuse(part.name, chunks(part.source), accepted):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != part.sha256:
        raise BenchstudyError(f"{part.name}: changed while it was being packed; run this again")
