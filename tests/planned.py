"""The jobs that `snakemake -n` would run."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_BEGINS = re.compile(r"^(?:local)?rule (\w+):$", re.M)
_LISTED = re.compile(r"^    (input|output|wildcards): (.*)$", re.M)


@dataclass(frozen=True)
class Job:
    rule: str
    of: str  # the family, page or target that it is for; "" for a job of the whole study
    inputs: frozenset[str]
    outputs: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.rule} {self.of}".rstrip()


def jobs_in(printed: str) -> list[Job]:
    """Each job once, because Snakemake prints some of them twice."""
    _, *parts = _BEGINS.split(printed)
    return list({job.name: job for job in map(_job, parts[::2], parts[1::2])}.values())


def _job(rule: str, text: str) -> Job:
    # An output that several studies write has a mark.
    listed = {key: value.replace(" (update)", "").split(", ") for key, value in _LISTED.findall(text)}
    wildcards = dict(pair.split("=", 1) for pair in listed.get("wildcards", ()))
    of = " ".join(value for key, value in wildcards.items() if key != "study")
    return Job(rule, of, frozenset(listed.get("input", ())), frozenset(listed.get("output", ())))


def following(jobs: Iterable[Job], file: str) -> set[str]:
    """The names of the jobs that are due after an edit of a file: those with it as an input, and all that follow."""
    jobs, changed, found = list(jobs), {file}, set[str]()
    while due := [job for job in jobs if job.name not in found and job.inputs & changed]:
        found |= {job.name for job in due}
        changed |= {output for job in due for output in job.outputs}
    return found
