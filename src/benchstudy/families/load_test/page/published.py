"""The published comparison of two releases (data/published/mattermost-v9.11-v10.0.csv) beside our own results."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from benchstudy.families.load_test.page.cells import signed, signed_percent
from benchstudy.families.load_test.page.load import FEWEST, Contrast, LoadTest
from benchstudy.families.load_test.page.mix import LoadMix, Reading
from benchstudy.families.load_test.page.users import METRIC, LoadUsers
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import MISSING, Cell, Table
from benchstudy.statistics.mix_shift import Shift

FILE = "mattermost-v9.11-v10.0.csv"
_USERS = "Supported users in unbounded tests"
_COMMENTS = "Comments"
# The page's two databases. Ours are compared with their own kind only, and MariaDB is not MySQL.
_KINDS = {"postgres": "Postgres", "mysql": "MySQL"}


class LoadPublished:
    """`folder` holds the CSV file; `load` has the measured results, None if this family was not measured."""

    def __init__(self, folder: Path, load: LoadTest | None):
        self.load = load
        self._rows = published.read(folder / FILE, {})

    # -- supported users ---------------------------------------------------------------------------------------------

    def users(self) -> Table:
        """One row per database: the page's two versions and their change, then ours."""
        rows = self._rows.filter(pl.col("section") == _USERS)
        versions = rows["version"].drop_nulls().unique(maintain_order=True).to_list()
        ours = self._ours()
        body = []
        for test, group in rows.group_by("test", maintain_order=True):
            printed = {row["version"]: str(row["as_printed"]) for row in group.iter_rows(named=True)}
            theirs = [published.printed(printed.get(version)) for version in (*versions, None)]
            kind = str(test[0]).removeprefix("unbounded-")
            same = [c for c in ours if kind in _words(c.database)]
            mine = self._measured(ours, same[0]) if same else [MISSING] * 3
            body.append((Cell.text(_KINDS.get(kind, kind)), *theirs, *mine))
        for contrast in ours:
            if self.load is not None and not any(kind in _words(contrast.database) for kind in _KINDS):
                name = self.load.database(contrast.database)
                body.append((Cell.text(name), *[MISSING] * (len(versions) + 1), *self._measured(ours, contrast)))
        columns = ("Database", *(f"Published: {version}" for version in versions), "Published: change")
        columns += ("Measured: base", "Measured: new", "Measured: change")
        caption = "Supported users: published (other hardware, one test each) and measured here"
        return Table("users", caption, columns, tuple(body))

    def _ours(self) -> Mapping[Contrast, float | None]:
        """Every contrast of an unbounded load with its ratio."""
        if self.load is None:
            return {}
        users = LoadUsers(self.load)
        return {contrast: users.ratio(contrast, made) for contrast, made in users.outcomes.items()}

    def _measured(self, ours: Mapping[Contrast, float | None], contrast: Contrast) -> list[Cell]:
        assert self.load is not None, "without results nothing is measured"
        found, users = [], LoadUsers(self.load)
        for version, case in contrast.cases.items():
            estimate = self.load.estimate(METRIC, contrast.target, case)
            cell = cells.estimate_cell(self.load.results, estimate, "median")
            if figure := users.figure(contrast, case):
                n = f"n = {estimate.summary.n}" if estimate is not None else ""
                lines = (figure, version, users.bounded(contrast).get(version, n))
                cell = Cell(lines, cells.href(self.load.results, contrast.target, case))
            found.append(cell)
        ratio = ours[contrast]
        href = self.load.hrefs(contrast)[-1]
        few = self.load.n(contrast) < FEWEST  # a relative change from so few trials would look like a result
        told = f"{human.plural(self.load.n(contrast), 'trial')} per arm" if few else signed_percent(ratio or 0.0)
        return [*found, MISSING if ratio is None else Cell((told,), href, "text" if few else "number")]

    # -- the mix shift -----------------------------------------------------------------------------------------------

    def shift(self) -> Table:
        """The page's store times with all methods, and without the one that people found by hand; beside them ours,
        without the labels that our search names."""
        rows = self._rows.filter((pl.col("section") == _COMMENTS) & pl.col("statistic").str.ends_with("_difference"))
        readings = [] if self.load is None else [r for r in LoadMix(self.load).readings if self._like_the_page(r)]
        body = []
        for row in rows.iter_rows(named=True):
            what = "mean" if row["statistic"].startswith("mean") else "p99"
            everything = row["series"].startswith("all")
            mine = [self._difference(reading, what, everything) for reading in readings]
            name = f"{row['series'][0].upper()}{row['series'][1:]}, {what}"
            body.append((Cell.text(name), published.printed(str(row["as_printed"])), *mine))
        title = self.load.title if self.load is not None else str
        heads = (f"Measured: {title(r.contrast)}, {r.contrast.base} → {r.contrast.new}" for r in readings)
        caption = "Store times, new against old: what people found by hand, and what our search finds"
        return Table("shift", caption, ("Of", "Published", *heads), tuple(body))

    def _like_the_page(self, reading: Reading) -> bool:
        """Whether the reading is of store times in a bounded load, as on the page."""
        assert self.load is not None, "without results there is no reading"
        return reading.group == "store" and not LoadUsers(self.load).searched(reading.contrast)

    def _difference(self, reading: Reading, what: str, everything: bool) -> Cell:
        assert self.load is not None, "without results there is no reading"
        href = self.load.hrefs(reading.contrast)[-1]
        if everything:
            return Cell((*_change(reading.shift, what), reading.verdict), href)
        labels = [p.label for p in reading.drivers or reading.shift.parts[:1] if p.state != "both"]
        rest = reading.shift.without(labels) if labels else None
        if rest is None:
            return Cell(("no label left or entered",), kind="missing")
        return Cell((*_change(rest, what), f"without {', '.join(labels)}"), href)

    # -- times of two versions ---------------------------------------------------------------------------------------

    def times(self, kind: str, title: str) -> Table:
        """One row per series and statistic, one column per version and one for the change, all as printed."""
        rows = self._rows.filter(pl.col("section").str.ends_with(kind))
        caption = f"{title} times of the published bounded test on Postgres: series with a p99 of exactly 5 ms or none"
        versions = rows["version"].drop_nulls().unique(maintain_order=True).to_list()
        body = []
        for (series, statistic), printed in _by_statistic(rows).items():
            change = printed.get(None, "–")
            change += " %" if change != "–" and not change.endswith("%") else ""
            values = [published.printed(printed.get(version)) for version in versions]
            body.append((Cell.text(series), Cell.text(statistic), *values, published.printed(change)))
        columns = ("Series", "Statistic", *versions, "Change")
        return Table(f"{title.lower()}-times", caption, columns, tuple(body))


def _by_statistic(rows: pl.DataFrame) -> Mapping[tuple[str, str], Mapping[str | None, str]]:
    """The printed values by series and statistic; each maps versions (None for the change) to text."""
    together: dict[tuple[str, str], dict[str | None, str]] = {}
    for row in rows.iter_rows(named=True):
        statistic = row["statistic"].removesuffix("_change").replace("supported_", "")
        together.setdefault((row["series"], statistic), {})[row["version"]] = str(row["as_printed"])
    return together


def _change(shift: Shift, what: str) -> tuple[str, ...]:
    """The lines of a change. That of a p99 is interpolated, and within one bucket not even its sign is known."""
    if what == "mean":
        return (signed(shift.change, "s"),)
    base, new = shift.base_quantile(), shift.new_quantile()
    if base is None or new is None:
        return ("–",)
    return (signed(new.value - base.value, "s"), *([] if base.apart(new) else ["not distinguishable: same bucket"]))


def _words(name: str) -> str:
    return human.level(name).lower()


def show(page: PublishedPage, results: Results | None) -> None:
    """Show the published comparison of two versions, beside ours if the study measured a load test."""
    load = None
    if results is not None:
        indexes = page.indexes(results)
        load = LoadTest(results, sessions.declared(indexes, results.family), indexes)
    tables = LoadPublished(page.folder, load)
    page.show_table(tables.users())
    page.show_table(tables.shift())
    page.show_tables(
        [tables.times("Store times", "Store"), tables.times("API times", "API")], "Nothing is published.", folded=True
    )


SECTION = Section(
    title="Two releases",
    introduction=(
        "Supported users, and store and API times, of two versions of a server, as the published comparison and its "
        "report print them. If this study compares two releases, its results are beside them. People found by hand "
        "that a method which is no longer called looks like a regression; our page finds this automatically."
    ),
    files={FILE: "Mattermost: v9.11.0 against v10.0.0-rc2"},
    show=show,
    order=50,
)
