"""The family's own table and figure: every single nap."""

from benchstudy.report import human
from benchstudy.report.exhibits import cells, figuredata
from benchstudy.report.figures.panels import Axis, Panel, Style, strip_panel
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import Cell, Table

WORST = "worst-naps"


def worst(results: Results) -> Table:
    """Each case with its longest nap."""
    naps = results.series("naps")
    assert naps is not None
    body = []
    for (target, case), rows in naps.group_by("target", "case", maintain_order=True):
        longest = human.quantity(rows["overslept_s"].max(), "s")
        name = results.case_name(str(target), str(case))
        body.append((Cell.text(name), Cell((longest,), cells.href(results, str(target), str(case)))))
    return Table(WORST, "The longest of all naps, beyond what was asked for", ("Case", "Overslept"), tuple(body))


def figure(results: Results) -> tuple[str, str, list[Panel], Style, list[str]]:
    """Trials by way, with one panel per length."""
    style = figuredata.style(results, "way")
    panels = []
    for length in results.levels("nap"):
        where = {"nap": length}
        points = figuredata.points(results, "overslept", "way", where)
        estimates = figuredata.estimates(results, "overslept", "way", where)
        axis = Axis(results.declared("overslept").title, "s")
        panels.append(strip_panel(f"Naps of {length}", points, estimates, axis, style))
    return "naps-by-way", "What naps lasted beyond what was asked for.", panels, style, list(style.names)
