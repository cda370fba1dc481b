"""The published comparison of two releases (data/published/mattermost-v9.11-v10.0.csv) beside our own results."""

from collections.abc import Iterator, Mapping
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
from benchstudy.report.scrutiny import disturbed
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
        ours = [] if self.load is None else list(_users_here(self.load))
        body = []
        for test, group in rows.group_by("test", maintain_order=True):
            printed = {row["version"]: str(row["as_printed"]) for row in group.iter_rows(named=True)}
            theirs = [published.printed(printed.get(version)) for version in (*versions, None)]
            kind = str(test[0]).removeprefix("unbounded-")
            mine = next((found for words, _, found in ours if kind in words), [MISSING] * 3)
            body.append((Cell.text(_KINDS.get(kind, kind)), *theirs, *mine))
        for words, name, found in ours:
            if not any(kind in words for kind in _KINDS):
                body.append((Cell.text(name), *[MISSING] * (len(versions) + 1), *found))
        columns = ("Database", *(f"Published: {version}" for version in versions), "Published: change")
        columns += ("Measured: base", "Measured: new", "Measured: change")
        caption = "Supported users: published (other hardware, one test each) and measured here"
        return Table("users", caption, columns, tuple(body))

    # -- the mix shift -----------------------------------------------------------------------------------------------

    def shift(self) -> Table:
        """The page's store times with all methods, and without the one that people found by hand; beside them ours,
        without the labels that our search names."""
        rows = self._rows.filter((pl.col("section") == _COMMENTS) & pl.col("statistic").str.ends_with("_difference"))
        readings = [] if self.load is None else list(_shifts_here(self.load))
        body = []
        for row in rows.iter_rows(named=True):
            what = "mean" if row["statistic"].startswith("mean") else "p99"
            everything = row["series"].startswith("all")
            mine = [_difference(reading, what, everything, href, marks) for _, href, marks, reading in readings]
            name = f"{row['series'][0].upper()}{row['series'][1:]}, {what}"
            body.append((Cell.text(name), published.printed(str(row["as_printed"])), *mine))
        caption = "Store times, new against old: what people found by hand, and what our search finds"
        return Table("shift", caption, ("Of", "Published", *(head for head, *_ in readings)), tuple(body))

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


def _users_here(load: LoadTest) -> Iterator[tuple[str, str, list[Cell]]]:
    """For every contrast of an unbounded load: the words and the label of its database, and base, new and change."""
    users = LoadUsers(load)
    for contrast, made in users.outcomes.items():
        found = []
        for version, case in contrast.cases.items():
            estimate = load.estimate(METRIC, contrast.target, case)
            cell = cells.estimate_cell(load.results, estimate, "median")
            if figure := users.figure(contrast, case):
                n = f"n = {estimate.summary.n}" if estimate is not None else ""
                lines = (figure, version, users.bounded(contrast).get(version, n))
                marks = disturbed.mark(load.results, (contrast.target, case))
                cell = Cell(lines, cells.href(load.results, contrast.target, case), marks=marks)
            found.append(cell)
        ratio, n_trials = users.ratio(contrast, made), load.n(contrast)
        few = n_trials < FEWEST  # a relative change from so few trials would look like a result
        told = f"{human.plural(n_trials, 'trial')} per version" if few else signed_percent(ratio or 0.0)
        href = load.hrefs(contrast)[-1]
        kind = "text" if few else "number"
        change = MISSING if ratio is None else Cell((told,), href, kind, marks=_marks(load, contrast))
        yield human.level(contrast.database).lower(), load.database(contrast.database), [*found, change]


def _shifts_here(load: LoadTest) -> Iterator[tuple[str, str, tuple[str, ...], Reading]]:
    """A heading, a link, marks and the reading of store times for every contrast of a bounded load, as on the page."""
    searched = LoadUsers(load).searched
    for reading in LoadMix(load).readings:
        contrast = reading.contrast
        if reading.group == "store" and not searched(contrast):
            head = f"Measured: {load.title(contrast)}, {contrast.base} → {contrast.new}"
            yield head, load.hrefs(contrast)[-1], _marks(load, contrast), reading


def _marks(load: LoadTest, contrast: Contrast) -> tuple[str, ...]:
    return disturbed.mark_together(load.results, {(contrast.target, case) for case in contrast.cases.values()})


def _difference(reading: Reading, what: str, everything: bool, href: str, marks: tuple[str, ...]) -> Cell:
    if everything:
        return Cell((*_change(reading.shift, what), reading.verdict), href, marks=marks)
    labels = [p.label for p in reading.drivers or reading.shift.parts[:1] if p.state != "both"]
    rest = reading.shift.without(labels) if labels else None
    if rest is None:
        return Cell(("no label left or entered",), kind="missing")
    return Cell((*_change(rest, what), f"without {', '.join(labels)}"), href, marks=marks)


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
