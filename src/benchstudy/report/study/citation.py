"""The citation of a study: authors, title, edition, and a digest of everything that was measured."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import yaml

from benchstudy import __version__
from benchstudy.model import paths
from benchstudy.model.authorship import Author
from benchstudy.model.study import Study
from benchstudy.report.results.results import Results, raw_files
from benchstudy.report.tables import latex

CFF, BIBTEX = paths.CITATIONS


@dataclass(frozen=True)
class Citation:
    """A study's citation. `edition`: day of the last trial; `digest`: SHA-256 of the SHA-256 sums of all raw files."""

    study: str
    title: str
    authors: Sequence[Author]
    edition: str
    digest: str
    license: str

    @property
    def key(self) -> str:
        """The key for `\\cite`; of two editions of one day, each has its own."""
        return re.sub(r"[^A-Za-z0-9-]", "-", "-".join(filter(None, (self.study, self.edition, self.digest[:8]))))

    @property
    def named(self) -> str:
        """The names of the authors, or a phrase that stands for them."""
        return " and ".join(author.name for author in self.authors) or f"The authors of the study {self.study}"

    def bibtex(self) -> str:
        """The entry for BibTeX, in UTF-8."""
        # Braces keep the name of an organisation whole, which is no family name and given name.
        fields = {
            "author": _escaped(self.named) if self.authors else f"{{{_escaped(self.named)}}}",
            "title": f"{{{_escaped(self.title)}}}",
            "year": self.edition[:4],
            "edition": self.edition,
            "note": latex.prose(f"Benchmark study, edition of {self.edition}, SHA-256 of raw data {self.digest}, "
                                f"made with benchstudy {__version__}"),
        }  # fmt: skip
        lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items() if text)
        return f"@misc{{{self.key},\n{lines}}}\n"

    def cff(self) -> str:
        """The content of `CITATION.cff`, in the Citation File Format 1.2.0."""
        is_address = self.license.startswith(("http://", "https://"))
        content: dict[str, Any] = {
            "cff-version": "1.2.0",
            "message": "If you use these results, please cite them as below.",
            "type": "dataset",
            "title": self.title,
            "authors": [_person(author) for author in self.authors] or [{"name": self.named}],
        }
        if self.edition:
            content |= {"version": self.edition, "date-released": date.fromisoformat(self.edition)}
        if self.license:
            content["license-url" if is_address else "license"] = self.license
        identifier = f"sha256:{self.digest}"
        content["identifiers"] = [
            {"type": "other", "value": identifier, "description": "SHA-256 of the SHA-256 sums of all raw files"}
        ]
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def _escaped(text: str) -> str:
    """Text for a field of BibTeX, which counts braces, also those that LaTeX would print."""
    return latex.escaped(text).replace("\\{", "\\textbraceleft{}").replace("\\}", "\\textbraceright{}")


def _person(author: Author) -> dict[str, str]:
    """An author's name split as in BibTeX: the family name is the last word, or what is before a comma.

    A single word is an entity.
    """
    family, comma, given = map(str.strip, author.name.partition(","))
    if not comma:
        given, _, family = author.name.rpartition(" ")
    names = {"family-names": family, "given-names": given} if given else {"name": author.name}
    orcid = {"orcid": f"https://orcid.org/{author.orcid}"} if author.orcid else {}
    return {**names, **orcid, **({"affiliation": author.affiliation} if author.affiliation and given else {})}


def citation(study: Study, results: Sequence[Results]) -> Citation:
    """The citation of a study, given the `results` of its families."""
    started = [moment for of in results for moment in of.counted["started"].drop_nulls().to_list()]
    sums = sorted(
        f"{file['sha256']}  {row['raw']}/{file['name']}\n"
        for of in results
        for row in of.trials.select("raw", "raw_files").iter_rows(named=True)
        for file in raw_files(row)
    )
    digest = hashlib.sha256()
    for line in sums:
        digest.update(line.encode())
    edition = max(started)[:10] if started else ""
    return Citation(study.study, study.title or study.study, study.authors, edition, digest.hexdigest(), study.license)
