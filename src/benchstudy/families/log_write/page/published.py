"""The figures of Tessera's page (data/published/tessera.csv) beside ours, and the problems that rules find in them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from benchstudy.families.log_write.hammer import HammerScreen
from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.page.tables import LogTables
from benchstudy.families.log_write.problems import Rule, of_screen
from benchstudy.report import human
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.tables.listings import Listing
from benchstudy.report.tables.tables import MISSING, Cell, Table

FILE = "tessera.csv"
APART = (
    "The published figures come from other machines, other storage and other days, and their number of repetitions is "
    "not published. They are shown beside ours for orientation only: neither a ratio nor a ranking of the two is valid."
)
_KINDS = {"gcp": "GCP", "posix": "POSIX", "mysql": "MySQL", "aws": "AWS"}
# Dedup on the page: "no", "yes", or not stated.
_DEDUP = {"no": "no dedup", "yes": "dedup", None: "dedup not stated"}
# Maps a field of a screen to its row of a published box: operation and statistic.
_BOX = {
    "read_workers": ("read", "workers"),
    "read_max_per_s": ("read", "max_rate"),
    "read_oversupply": ("read", "oversupply"),
    "write_workers": ("write", "workers"),
    "write_max_per_s": ("write", "max_rate"),
    "oversupply": ("write", "oversupply"),
    "tree_size": ("write", "tree_size"),
    "qps": ("write", "qps"),
    "window_s": ("write", "window"),
}


class LogPublished:
    """`folder` holds the CSV file. `load`: the measured results, None if this family was not measured."""

    def __init__(self, folder: Path, load: LogWrite | None):
        self._load = load
        self._rows = published.read(folder / FILE, {})
        self._rates = self._rows.filter(statistic="qps", op="write")

    # -- beside ours -----------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """One row per published backend, resources and front ends: QPS as printed, and ours of the same kind."""
        body, beside = [], set()
        for (kind, resources, front_ends), rows in self._rates.group_by(
            "backend", "resources", "front_ends", maintain_order=True
        ):
            printed = [_printed(rows.filter(pl.col("antispam").eq_missing(pl.lit(level)))) for level in _DEDUP]
            # Ours stand only in the first row of their kind, because they match no machine of the page.
            ours = [MISSING if kind in beside else self._ours(str(kind), level) for level in ("no", "yes")]
            beside.add(kind)
            parts = [_KINDS[str(kind)], *([resources] if resources else [])]
            parts += [human.plural(front_ends, "front end")] if front_ends and front_ends > 1 else []
            body.append((Cell.text(" · ".join(parts)), *printed, *ours))
        columns = [f"Published, {dedup}" for dedup in _DEDUP.values()]
        columns += [f"Measured here, {_DEDUP[level]}" for level in ("no", "yes")]
        caption = "QPS: published (other hardware, number of repetitions not published), and measured here"
        return Table("published", caption, ("Published for", *columns), tuple(body))

    def _ours(self, kind: str, antispam: str) -> Cell:
        """The fastest log of that kind. Open loops come before the hammer, which offers less to a slow log."""
        load = self._load
        mine = [s for s in load.sweeps if load.kind(s) == kind and s.antispam == antispam] if load is not None else []
        if load is None or not mine:
            return Cell(("not measured here",), kind="missing")
        tables = LogTables(load)
        chosen = [s for s in mine if s.is_open] or mine
        known = [(best[1].summary.median or 0.0, best[0]) for s in chosen if (best := load.best(s)) is not None]
        if not known:
            return tables.rate_cell(mine[0].every_point[0])
        _, point = max(known, key=lambda k: k[0])
        cell = tables.rate_cell(point)
        at = f"{point.level} offered" if point.rate else f"in the {point.level}"
        where = f"{load.label(point.sweep)}, {load.resources(point.sweep)}, {at}"
        return Cell((cell.lines[0], where, *cell.lines[1:]), cell.href, cell.kind, cell.title, cell.marks)

    # -- boxes -----------------------------------------------------------------------------------------------------

    def screens(self) -> dict[str, HammerScreen]:
        """The boxes on the page, by section and dedup."""
        found = {}
        boxes = self._rows.filter(pl.col("section").str.ends_with(": box"))
        for (section, antispam), rows in boxes.group_by("section", "antispam", maintain_order=True):
            name = str(section).removesuffix(": box")
            found[f"{name}, {_DEDUP[antispam]}" if antispam else name] = _screen(rows)
        return found

    def boxes(self) -> Iterator[tuple[str, list[Listing]]]:
        yield (
            "Published boxes, other hardware",
            [
                Listing(name, screen.box(), "Published: one screen, not repeated.")
                for name, screen in self.screens().items()
            ],
        )

    # -- what is wrong ---------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """One sentence for each problem or gap of the published figures."""
        screens = self.screens()
        return [*_in_screens(screens), *self._beside_text(screens), *self._missing(screens)]

    def _beside_text(self, screens: Mapping[str, HammerScreen]) -> Iterator[str]:
        """Sentences that contradict the box below them."""
        texts = self._rows.filter(pl.col("section").str.ends_with(": text") & (pl.col("statistic") == "qps"))
        found = []
        for row in texts.iter_rows(named=True):
            section = row["section"].removesuffix(": text")
            name = f"{section}, {_DEDUP[row['antispam']]}" if row["antispam"] else section
            screen = screens.get(name)
            if screen is not None and screen.qps != row["value"]:
                found.append(f"“{row['as_printed']}” above {screen.qps}/s ({name})")
        if found:
            yield f"Text and box differ, and the page does not say which is the result: {'; '.join(found)}."

    def _missing(self, screens: Mapping[str, HammerScreen]) -> Iterator[str]:
        bounds = self._rates.filter(pl.col("relation").is_in([">", "~"])).height
        empty = self._rates.filter(pl.col("value").is_null())["as_printed"].to_list()
        yield (
            f"{len(screens)} pasted screens without repetitions: the page gives no number of runs, interval, warm-up "
            "or command for any rate. By default the hammer makes a tenth of the leaves duplicates."
        )
        yield f"{bounds} rates are only bounded (“>”) or rounded (“around”): the page does not say by how much."
        if empty:
            said = ", ".join(f"“{text.rstrip('.')}”" for text in dict.fromkeys(empty))
            yield f"{len(empty)} rates are missing: {said}."
        reading = [name for name, screen in screens.items() if screen.read_max_per_s]
        if reading:
            yield f"Some boxes include reads besides the writes, others do not: {'; '.join(reading)}."


def _in_screens(screens: Mapping[str, HammerScreen]) -> Iterator[str]:
    """Problems that the parser of the hammer finds in a box. The same finding in several boxes is listed once."""
    everywhere: dict[str, list[str]] = {}
    for name, screen in screens.items():
        for problem in of_screen(screen):
            if problem.rule is Rule.MEANS:
                everywhere.setdefault(told(problem), []).append(name)
            else:
                yield f"{name}: {_RULES.get(problem.rule, problem.rule)}: {told(problem)}."
    for text, names in everywhere.items():
        yield f"{'All' if len(names) == len(screens) else f'{len(names)} of {len(screens)}'} boxes: {text}."


_BOUND = "writers-bound"
_RULES = {Rule.OFFERED: "offered above achieved", Rule.WRITERS: _BOUND, Rule.TOO_MANY_WRITERS: _BOUND}


def _screen(rows: pl.DataFrame) -> HammerScreen:
    values = {(op, statistic): value for op, statistic, value in rows.select("op", "statistic", "value").iter_rows()}
    times = {
        f"{t}_{end}_s": values["write", f"{t}_{end}"] for t in ("queue", "integrate") for end in ("min", "avg", "max")
    }
    return HammerScreen(**{field: round(values[key]) for field, key in _BOX.items()}, **times)


def _printed(rows: pl.DataFrame) -> Cell:
    """How the page gives one rate: in a sentence or table, and in the box if there is one."""
    if rows.is_empty():
        return MISSING
    said: list[str] = []
    for row in rows.iter_rows(named=True):
        in_box = row["section"].endswith(": box")
        said.append(f"box: {human.quantity(row['value'], '1/s')}" if in_box else str(row["as_printed"]))
    return Cell(tuple(said), kind="published" if rows["value"].drop_nulls().len() else "published warning")


def show(page: PublishedPage, results: Results | None) -> None:
    """Show QPS by backend as printed, our fastest log of the same kind, and the boxes of the page."""
    load = None
    if results is not None:
        load = LogWrite(results, sessions.declared(page.indexes(results), results.family))
    tables = LogPublished(page.folder, load)
    page.show_table(replace(tables.table(), name="log-qps"))
    with page.folded("The published boxes"):
        page.show_listings("published", tables.boxes(), "No box is published.")


SECTION = Section(
    title="Transparency log",
    introduction="Entries per second that a log integrated, and the screens that the page shows.",
    files={FILE: "Tessera: storage performance"},
    show=show,
    order=40,
)
