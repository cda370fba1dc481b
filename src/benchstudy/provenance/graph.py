"""The description of a crate in RO-Crate's terms: its files, their licences, the workflow and its runs.

Profile: Provenance Run Crate 0.5, which is a Workflow Run Crate with its steps.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from benchstudy import __version__
from benchstudy.model.paths import PUBLISHED
from benchstudy.provenance.contents import STUDY_FILE, Contents, Part
from benchstudy.provenance.entities import PROFILES, STATUS, Files, Graph, Reference, address, fragment, to
from benchstudy.provenance.runs import Runs, step
from benchstudy.provenance.words import SOFTWARE_LICENSE, description_of, license_text, problems_of
from benchstudy.report.zips import chunks

_WORKFLOW, _STUDY, _REPORTS, _RUN = "workflow/Snakefile", "#study", "#reports", "#run"
_SNAKEMAKE = "https://snakemake.readthedocs.io"
_FORMATS = {
    "csv": "text/csv",
    "gz": "application/gzip",
    "html": "text/html",
    "ipynb": "application/x-ipynb+json",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "rst": "text/x-rst",
    "svg": "image/svg+xml",
    "tex": "application/x-tex",
    "toml": "application/toml",
    "txt": "text/plain",
}
# Folders described as one entity; SHA256SUMS lists each file in them.
_WHOLE = {
    "envs": "What hosts are provisioned with, and what each system sends there",
    "notebooks": "Notebooks that the pages are made from",
    "setup": "Makes the environment that requirements.lock pins",
    "src": "The package benchstudy: measures, parses, estimates, reports",
    "workflow": "The workflow",
    PUBLISHED: "Figures of published pages, with their sources",
}


def metadata(contents: Contents, parts: Iterable[Part]) -> str:
    """`ro-crate-metadata.json` of a crate that holds `parts`: the same text for the same study and files."""
    graph = Graph()
    _Description(contents, graph, list(parts)).write()
    return json.dumps(graph.document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _format(name: str) -> str:
    """The media type. Outputs of tools and lists of sums have no suffix, and are text."""
    _, dot, ending = name.rpartition("/")[2].rpartition(".")
    return _FORMATS.get(ending, "application/octet-stream") if dot else "text/plain"


class _Description:
    def __init__(self, contents: Contents, graph: Graph, parts: list[Part]):
        self._contents, self._graph, self._study = contents, graph, contents.study
        self._folders = [name for name in _WHOLE if any(part.name.startswith(f"{name}/") for part in parts)]
        described = [part for part in parts if not part.name.startswith(tuple(f"{name}/" for name in _WHOLE))]
        self._files = Files({part.name: self._file(part) for part in described})
        self._authors = [self._author(number) for number in range(len(self._study.authors))]
        self._runs = Runs(contents, graph, self._files, self._authors)

    def write(self) -> None:
        for measured in self._contents.measured:
            self._runs.describe(measured)
        self._workflow()
        actions = [self._run(), *self._engine(), *self._runs.actions]
        for profile, name in PROFILES.items():
            self._graph.add(profile, "CreativeWork", name=name, version=profile.rpartition("/")[2])
        where, name, text = license_text(self._study.license)
        self._graph.describe_root(
            name=self._study.title or self._study.study,
            description=description_of(self._contents),
            datePublished=max(trial.record.finished for trial in self._contents.trials),
            license=self._graph.add(where, "CreativeWork", name=name, description=text),
            author=self._authors,
            keywords=["benchmark", *self._study.families],
            conformsTo=[{"@id": profile} for profile in PROFILES],
            mainEntity=to(_WORKFLOW),
            mentions=actions,
            hasPart=[*self._loose_files(), to(_WORKFLOW), *self._whole_folders(), *self._runs.folders, self._reports()],
        )

    # -- files ----------------------------------------------------------------------

    def _file(self, part: Part) -> Reference:
        more: dict[str, Any] = {}
        if part.name == STUDY_FILE:
            more["exampleOfWork"] = {"@id": _STUDY}
        elif part.name == "README.md":
            more["about"] = {"@id": "./"}
        return self._graph.add(
            address(part.name),
            "File",
            name=part.name.rpartition("/")[2],
            contentSize=str(part.size),
            sha256=part.sha256,
            encodingFormat=_format(part.name),
            **more,
        )

    def _loose_files(self) -> list[Reference]:
        tops = [part.name for part in self._contents.others if "/" not in part.name]
        return self._files.named(["README.md", *sorted(tops)]) + self._files.below("data/provision")

    def _whole_folders(self) -> list[Reference]:
        return [
            self._graph.add(
                f"{name}/",
                "Dataset",
                name=_WHOLE[name],
                license=None if name == PUBLISHED else self._software_license(),
            )
            for name in self._folders
        ]

    def _software_license(self) -> Reference:
        where, name, _ = license_text(SOFTWARE_LICENSE)
        return self._graph.add(where, "CreativeWork", name=name, description="Of the software benchstudy, see LICENSE")

    def _reports(self) -> Reference:
        return self._graph.add(
            f"reports/{self._study.study}/",
            "Dataset",
            name="Reports: pages, figures, tables, executed notebooks",
            hasPart=self._files.named(part.name for part in self._contents.reports),
            exampleOfWork={"@id": _REPORTS},
        )

    def _author(self, number: int) -> Reference:
        author = self._study.authors[number]
        organisation = author.affiliation and self._graph.add(
            fragment("organisation", author.affiliation), "Organization", name=author.affiliation
        )
        identifier = f"https://orcid.org/{author.orcid}" if author.orcid else fragment("author", str(number + 1))
        return self._graph.add(identifier, "Person", name=author.name, affiliation=organisation)

    # -- the workflow, as planned and as run ------------------------------------------------------------------

    def _workflow(self) -> None:
        language = self._graph.add(
            "https://w3id.org/workflowhub/workflow-ro-crate#snakemake",
            "ComputerLanguage",
            name="Snakemake",
            identifier={"@id": "https://doi.org/10.1093/bioinformatics/bts480"},
            url={"@id": _SNAKEMAKE},
        )
        study = self._graph.add(
            _STUDY,
            "FormalParameter",
            name="study",
            additionalType="File",
            description="Hosts, targets, families with their factors, thresholds",
            workExample=to(STUDY_FILE),
        )
        reports = self._graph.add(
            _REPORTS,
            "FormalParameter",
            name="reports",
            additionalType="Dataset",
            description="Pages, figures and tables",
            workExample=to(f"reports/{self._study.study}/"),
        )
        steps = [{"@id": step(family)} for family in self._runs.measured_families]
        self._graph.add(
            _WORKFLOW,
            ["File", "SoftwareSourceCode", "ComputationalWorkflow", *(["HowTo"] if steps else [])],
            name="benchstudy's workflow: provision, measure, tidy, report",
            version=__version__,
            license=self._software_license(),
            programmingLanguage=language,
            conformsTo={"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
            input=study,
            output=reports,
            step=steps,
            hasPart=self._runs.tools,
        )

    def _run(self) -> Reference:
        trials, problems = self._contents.trials, problems_of(self._contents)
        declared = f"SHA-256 of the study as it was declared: {self._study.sha256}"
        return self._graph.add(
            _RUN,
            "CreateAction",
            name=f"Study {self._study.study}",
            description=f"snakemake --cores 8 report --configfile {STUDY_FILE}; {declared}",
            startTime=min(trial.record.started for trial in trials),
            endTime=max(trial.record.finished for trial in trials),
            instrument=to(_WORKFLOW),
            agent=self._authors,
            object=to(STUDY_FILE),
            result=[to(f"reports/{self._study.study}/"), *self._runs.folders],
            actionStatus=STATUS[not problems],
            error="; ".join(problems),
        )

    def _engine(self) -> list[Reference]:
        """The actions of the workflow engine, in the version that the lock pins."""
        if not self._runs.sessions:
            return []
        lock = next((part for part in self._contents.others if part.name == "requirements.lock"), None)
        text = b"".join(chunks(lock.source)).decode() if lock else ""
        pinned = re.search(r"^snakemake==(\S+)", text, re.MULTILINE)
        engine = self._graph.add(
            "#snakemake",
            "SoftwareApplication",
            name="Snakemake",
            url=_SNAKEMAKE,
            softwareVersion=pinned[1] if pinned else None,
        )
        return [
            self._graph.add(
                "#engine-run",
                "OrganizeAction",
                name="Snakemake runs the workflow",
                instrument=engine,
                object=self._runs.sessions,
                result={"@id": _RUN},
            )
        ]
