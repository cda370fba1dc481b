"""The sentences of a crate: its description, its licence, and the README for whoever unpacks it."""

import html
import re
from collections import Counter
from collections.abc import Sequence

from benchstudy import __version__
from benchstudy.provenance.contents import STUDY_FILE, Contents, Measured

_NO_LICENSE = (
    "No licence was declared for this study. You may do only what the law allows without the authors' consent. "
    "(A study declares a licence with `license: CC-BY-4.0`.)"
)
SOFTWARE_LICENSE = "Apache-2.0"
_CODE_LICENSE = "The software benchstudy in this crate is under the Apache License 2.0, see LICENSE."


def counted(measured: Measured) -> str:
    """How the trials of a family on a target ended: "12 trials: 10 ok, 2 failed; 1 of them discarded by hand"."""
    return _counts([measured])


def _counts(found: Sequence[Measured]) -> str:
    trials = [(measured, trial) for measured in found for trial in measured.trials]
    by_status = ", ".join(f"{n} {s}" for s, n in Counter(trial.record.status for _, trial in trials).most_common())
    marked = {
        "discarded by hand": sum(len(measured.index["discarded"]) for measured in found),
        "disturbed by other work on the host": sum(m.disturbance_of(trial) is not None for m, trial in trials),
    }
    aside = "".join(f"; {count} of them {what}" for what, count in marked.items() if count)
    return f"{len(trials)} trial{'s' * (len(trials) != 1)}{f': {by_status}' if by_status else ''}{aside}"


def description_of(contents: Contents) -> str:
    """A few sentences about the crate: the question, the families, and how many trials failed."""
    study = contents.study
    count = _counts(contents.measured)
    opening = f"{study.question} " if study.question else ""
    return (
        f"{opening}Benchmark study {study.study!r}, families {', '.join(study.families)}. {count}. Every trial is "
        "here, including failed ones, with its commands, outputs and checksums. So are the reports made from them."
    )


def problems_of(contents: Contents) -> list[str]:
    """Why sessions did not finish, one text per such session."""
    return [
        f"{m.plan.family_name} on {m.plan.target}: {m.index['problem']}"
        for m in contents.measured
        if m.index["problem"]
    ]


def license_text(declared: str) -> tuple[str, str, str]:
    """(identifier, name, sentence) of the licence of a study's data and reports."""
    if not declared:
        return "#license", "No licence declared", f"{_NO_LICENSE} {_CODE_LICENSE}"
    where = declared if "://" in declared else f"https://spdx.org/licenses/{declared}"
    return where, declared, f"The study's data and reports are under {declared}. {_CODE_LICENSE}"


def _plain(text: str) -> str:
    """The text on one line, without markup, because others render the README as HTML."""
    return html.escape(" ".join(text.split()), quote=False)


def readme(contents: Contents) -> str:
    """Markdown."""
    study = contents.study
    problems = "".join(f"- {_plain(problem)}\n" for problem in problems_of(contents))
    authors = "".join(
        f"- {_plain(', '.join(filter(None, (author.name, author.affiliation))))}"
        f"{f', <https://orcid.org/{author.orcid}>' if author.orcid else ''}\n"
        for author in study.authors
    )
    families = "".join(f"- {m.plan.family_name} on {m.plan.target}: {counted(m)}\n" for m in contents.measured)
    _, _, licence = license_text(study.license)
    text = f"""# {_plain(study.title or study.study)}

{_plain(description_of(contents))}

{f"By{chr(10)}{chr(10)}{authors}" if authors else ""}
## Read

`reports/{study.study}/index.html` opens in any browser and needs no network. Each figure links to its trials, and each
trial to its files below `data/raw/`.

{families}
{f"Sessions that did not finish:{chr(10)}{chr(10)}{problems}" if problems else ""}
## Check

```sh
sha256sum --check --quiet SHA256SUMS
```

This compares every file. If benchstudy is installed, `benchstudy verify CRATE.zip` also names added and missing files.

## Make the same tables again

You need none of the hosts. Run this here or in a checkout of benchstudy:

```sh
make reproduce CRATE=path/of/the/crate.zip
```

If benchstudy is installed, run `benchstudy reproduce path/of/the/crate.zip` instead. The software in this crate is
version {__version__}.

`make` first creates an environment from `requirements.lock`. Both commands make every page and table from the raw
files, compare each table cell by cell with the one in `reports/`, and name what differs.

## Files

- `ro-crate-metadata.json`: a description for machines (Workflow Run RO-Crate); `SHA256SUMS`: the checksum of every file
- `{STUDY_FILE}`: the study as it was declared; `data/raw/`: every trial, session and discard, as stored
- `data/provision/`: what was installed on the hosts; `data/published/`: published figures that pages compare with
- `reports/`: pages, tables, figures, executed notebooks; all other folders: the software that made them

## Licence

{licence}
"""
    return re.sub(r"\n{3,}", "\n\n", text)
