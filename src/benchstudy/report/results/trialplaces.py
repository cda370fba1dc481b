"""Decides where each trial of a family is listed: on the family's page if there is room, else on separate pages.

In a study with many targets, each target has a page with its trials.

With up to about 1 000 trials, the family's page lists them all, and is complete if you send it alone. With 10 000
trials, the SHA-256 sums of the raw files alone exceed the size limit of a page and do not compress, so each case gets
a separate page.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

# Bytes of the list of trials on a family's page. The page also has figures and their script, and stays below 3 MB.
ROOM = 900_000
# Bytes of a page with only trials; a case with more gets several pages.
_ROOM_OF_ITS_OWN = 2_000_000
# Bytes of markup and short texts per trial, and per linked file. With these, the estimates below were within a third
# of the actual sizes of the rows of five families, and mostly above them.
_A_ROW, _A_LINK = 200, 10
# A case names a folder and has up to 255 characters; a file name needs room for a suffix and a number, too.
_LONGEST_STEM = 180

# "linked": on the page, with a link per raw file; "listed": on the page, with a link only to the trial's folder;
# "apart": on separate pages, with a link per raw file.
Detail = Literal["linked", "listed", "apart"]


@dataclass(frozen=True)
class TrialPlaces:
    """Where trials are listed, relative to the folder of the study's reports.

    `files` has the page of each trial that is not on the family's page. `anchors` has the place on that page of entries
    that stand for a trial, such as a target's case.
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
    """Places for the table `trials`. `anchors` maps (target, case) to the id of its trials on the family's page."""
    sized = in_order(trials).select("trial", "target", "case", *_weights())
    linked, listed = (int(sized[name].sum()) for name in ("linked", "listed"))
    if linked <= ROOM:
        return TrialPlaces(family, "linked", {})
    if listed <= ROOM:
        return TrialPlaces(family, "listed", {})
    return TrialPlaces(family, "apart", dict(_files(family, sized, anchors)))


def places_by_target(family: str, trials: pl.DataFrame) -> TrialPlaces:
    """Places for a study with many targets: one page per target, and further ones if it has too many trials."""
    sized = trials.sort("target", "case", "block", "started", "trial").select("trial", "target", *_weights())
    part = (pl.col("linked").cum_sum() // _ROOM_OF_ITS_OWN).over("target")
    rows = sized.select("trial", "target", part.alias("part")).iter_rows()
    return TrialPlaces(family, "apart", {trial: target_page(family, target, number) for trial, target, number in rows})


def target_page(family: str, target: str, part: int = 0) -> str:
    """The page of a target, or a further part of its trials, relative to the folder of the study's reports."""
    return f"{family}/targets/{target}/part-{part + 1}.html" if part else f"{family}/targets/{target}.html"


def in_order(trials: pl.DataFrame) -> pl.DataFrame:
    """Trials in the order of lists. The last sort column is for trials that began at the same moment."""
    return trials.sort("block", "started", "trial")


def _weights() -> tuple[pl.Expr, pl.Expr]:
    """The approximate bytes of a trial: a list of files in HTML takes three quarters of its size in JSON."""
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
        # Two names with the same beginning must not become the same file.
        stem = anchor if len(anchor) <= _LONGEST_STEM else f"{anchor[:_LONGEST_STEM]}-{numbers[target, case]}"
        more = f"-part-{number + 1}" if number else ""
        yield trial, f"{family}/trials/{stem}{more}.html"
