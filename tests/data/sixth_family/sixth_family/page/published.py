"""Published figures of naps, if somebody put a table into data/published."""

from benchstudy.report import human
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import Cell, Table

FILE = "naps.csv"


def show(page: PublishedPage, results: Results | None) -> None:
    """The page's naps, and whether we measured comparable ones."""
    rows = published.read(page.folder / FILE, {})
    body = [
        (Cell.text(row["nap"]), Cell((human.quantity(row["value"], row["unit"]),), kind="published"))
        for row in rows.iter_rows(named=True)
    ]
    page.show_table(Table("naps", "Published naps, other hardware", ("Nap", "Overslept"), tuple(body)))
    page.say(["Naps were measured here." if results is not None else "No nap was measured here."])


SECTION = Section("Naps", "How much longer naps last elsewhere.", {FILE: "The page of naps"}, show)
