"""Where each trial of a family is listed: on the family's page while there is room, else in pages of their own.

Of a study with many targets each has a page, with its trials.

A page of some 1 000 trials holds them all, and is complete when it is sent to somebody alone. Of 10 000 trials the raw
files' SHA-256 by themselves are more than a page may weigh, and do not compress: there each case gets a page beside.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

# Bytes of the list of trials on a family's page, which holds its figures and their script too and stays below 3 MB.
ROOM = 900_000
# Bytes of a page of nothing but trials; a case that has more gets several.
_ROOM_OF_ITS_OWN = 2_000_000
# Markup and short texts around a trial, and around a file that is linked. With them the weights below came within a
# third of what the rows of the five families weighed, and mostly above it.
_A_ROW, _A_LINK = 200, 10
# A case is a folder's name, so up to 255 characters; a file name must hold a suffix and a number as well.
_LONGEST_STEM = 180

# "linked": on the page, each raw file a link; "listed": on the page, only the trial's folder is a link; "apart": in
# pages of their own, each raw file a link.
Detail = Literal["linked", "listed", "apart"]


@dataclass(frozen=True)
class TrialPlaces:
    """`files`: the page of each trial that is listed apart, relative to the folder of the study's reports. `anchors`:
    where on it what stands for a trial is, if that is none.
    """

    family: str
    detail: Detail
    files: Mapping[str, str]
    anchors: Mapping[str, str] = field(default_factory=dict)

    def page(self, trial: str) -> str:
        """The page that lists the trial, relative to the folder of the study's reports."""
        return self.files.get(trial, f"{self.family}.html")

    def href(self, trial: str) -> str:
        """The link from the family's page to the trial."""
        return f"{self.files.get(trial, '')}#{self.anchors.get(trial, f'trial-{trial}')}"


def trial_places(family: str, trials: pl.DataFrame, anchors: Mapping[tuple[str, str], str]) -> TrialPlaces:
    """`trials`: the table of trials; `anchors`: (target, case) to the id of its trials on the family's page."""
    sized = in_order(trials).select("trial", "target", "case", *_weights())
    linked, listed = (int(sized[name].sum()) for name in ("linked", "listed"))
    if linked <= ROOM:
        return TrialPlaces(family, "linked", {})
    if listed <= ROOM:
        return TrialPlaces(family, "listed", {})
    return TrialPlaces(family, "apart", dict(_files(family, sized, anchors)))


def places_by_target(family: str, trials: pl.DataFrame) -> TrialPlaces:
    """Of a study with many targets: a page a target, and further ones where it has more trials than one can hold."""
    sized = trials.sort("target", "case", "block", "started", "trial").select("trial", "target", *_weights())
    part = (pl.col("linked").cum_sum() // _ROOM_OF_ITS_OWN).over("target")
    rows = sized.select("trial", "target", part.alias("part")).iter_rows()
    return TrialPlaces(family, "apart", {trial: target_page(family, target, number) for trial, target, number in rows})


def target_page(family: str, target: str, part: int = 0) -> str:
    """The page of a target, relative to the folder of the study's reports, or a further part of its trials."""
    return f"{family}/targets/{target}/part-{part + 1}.html" if part else f"{family}/targets/{target}.html"


def in_order(trials: pl.DataFrame) -> pl.DataFrame:
    """Trials as they are listed; the last column is for two that began in the same moment."""
    return trials.sort("block", "started", "trial")


def _weights() -> tuple[pl.Expr, pl.Expr]:
    """Bytes that a trial takes, about: a list of files in HTML is three quarters of what it is in JSON."""
    files = pl.col("raw_files").fill_null("")
    folder = pl.col("raw").fill_null("").str.len_bytes()
    listed = _A_ROW + folder + files.str.len_bytes() * 3 // 4 + pl.col("cause").fill_null("").str.len_bytes()
    links = files.str.count_matches('"sha256"') * (folder + _A_LINK)
    return listed.alias("listed"), (listed + links).alias("linked")


def _files(
    family: str, sized: pl.DataFrame, anchors: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, str]]:  # fmt: skip
    part = (pl.col("linked").cum_sum() // _ROOM_OF_ITS_OWN).over("target", "case")
    numbers = {place: number for number, place in enumerate(anchors, start=1)}
    for trial, target, case, number in sized.select("trial", "target", "case", part.alias("part")).iter_rows():
        anchor = anchors[target, case]
        # Two names that begin alike must not become one file.
        stem = anchor if len(anchor) <= _LONGEST_STEM else f"{anchor[:_LONGEST_STEM]}-{numbers[target, case]}"
        more = f"-part-{number + 1}" if number else ""
        yield trial, f"{family}/trials/{stem}{more}.html"
