"""The section of a family's page on its targets: figures and tables that summarise a thousand of them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from benchstudy.model.criteria import FAR
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.comparisons.comparison import Comparisons, Row
from benchstudy.report.exhibits.cells import href
from benchstudy.report.figures.panels import Axis, Panel, Style, strip_panels
from benchstudy.report.figures.thinning import MOST_POINTS
from benchstudy.report.results.over_targets import ALL, OverTargets
from benchstudy.report.results.trialplaces import target_page
from benchstudy.report.scrutiny import many_targets
from benchstudy.report.tables.tables import MISSING, MOST_OF_TRIALS, Cell, Table
from benchstudy.report.targets.spread import Figure, Lost, Outlying, Spread
from benchstudy.statistics.comparisons import Verdict

_MOST_OUTLYING = 25  # targets on a page; the table's files have all
_MOST_ROWS, _MOST_PANELS = 24, 4
_MOST_UNUSUAL = 3
FIGURE_CAPTION = (
    "Ratio of each target's median to the median of all targets. A target beyond the band, which reaches "
    f"{FAR:g} robust standard deviations to either side, stands out."
)


def introduction(results: OverTargets) -> str:
    """A paragraph on how to read a page with one value per target."""
    count = human.plural(len(results.measured.targets), "target")
    return (
        f"This page summarises {count}. Each target takes the place of a trial, and its value is the median of its "
        "trials: n counts targets, a point is a target and links to its page, medians and their intervals are over all "
        "targets, and comparisons pair two cases of the same target. Histograms are merged over all trials. What else "
        "was recorded within a trial is from one trial per target, the one nearest to its median. trials.csv has every "
        "trial, and estimates.csv every case of every target; the target's page has both."
    )


# -- figure ------------------------------------------------------------------------------------------------------------


def figure(results: OverTargets, found: Spread) -> tuple[Style, list[Panel]]:
    """Strips with one row per case, one panel per metric and one point per target."""
    by_metric: dict[str, list[Figure]] = {}
    for one in found.figures:
        if one.can_tell and len(by_metric.setdefault(one.metric, [])) < _MOST_ROWS:
            by_metric[one.metric].append(one)
    drawn = {metric: figures for metric, figures in by_metric.items() if figures}
    style = Style(tuple(dict.fromkeys(_case(results, one.case) for figures in drawn.values() for one in figures)))
    trials = {(target, case): trial for target, case, trial in results.names.select("target", "case", "trial").rows()}
    panels: list[Panel] = []
    for metric, figures in list(drawn.items())[:_MOST_PANELS]:
        points = pl.concat([_points(results, one, trials) for one in figures])
        # A fleet with two kinds of hosts has many that stand out; the farthest are always drawn.
        far = pl.col("y").log().abs().rank("ordinal", descending=True).over("stays") <= MOST_POINTS
        points = points.with_columns(stays=pl.col("stays") & far)
        bands = pl.DataFrame([_band(results, one) for one in figures])
        axis = Axis("Ratio to the median of all targets", "×")
        panels += strip_panels(results.declared(metric).title, points, bands, axis, style)
    return style, panels


def _points(results: OverTargets, one: Figure, trials: dict[tuple[str, str], str]) -> pl.DataFrame:
    ratios = [one.ratio(target) for target in one.values]
    named = [trials[target, one.case] for target in one.values]
    low, high = one.limits
    return pl.DataFrame(
        {
            "series": [_case(results, one.case)] * len(ratios),
            "x": ratios,
            "y": ratios,
            "trial": named,
            "href": list(map(results.places.href, named)),
            "stays": [not low <= value <= high for value in one.values.values()],
            "tip target": list(one.values),
            "tip median": [human.quantity(value, one.unit) for value in one.values.values()],
        }
    ).with_columns(pl.col("x", "y").round_sig_figs(5))


def _band(results: OverTargets, one: Figure) -> dict[str, Any]:
    low, high = one.limits
    return {
        "series": _case(results, one.case),
        "x": 1.0,
        "y": 1.0,
        "low": low / one.middle,
        "high": high / one.middle,
        "tip median of all targets": human.quantity(one.middle, one.unit),
        "tip usual": _range(low, high, one.unit),
    }


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(results: OverTargets, found: Spread) -> Iterator[Table]:
    """Yield the tables: targets that stand out, targets with failed trials, each figure over all targets."""
    yield Table(
        "targets-outlying",
        "Targets that stand out, certain ones first",
        ("Target", "In how many figures", "Farthest", "All targets", "How far", "Its own trials", "Its hosts, events"),
        tuple(_outlying_row(results, found, target) for target in found.outlying),
        _MOST_OUTLYING,
    )
    yield Table(
        "targets-lost",
        "Targets with failed trials",
        ("Target", "Cases without a figure", "Failed trials", "Most frequent cause"),
        (
            *(_unmeasured_row(target, why) for target, why in found.unmeasured.items()),
            *(_lost_row(results, one) for one in found.lost),
        ),
        MOST_OF_TRIALS,
    )
    lost = Counter(case for one in found.lost for case in one.cases)
    yield Table(
        "targets-spread",
        "Each figure over all targets",
        ("Case", "Figure", "Targets", "Median of targets", "Most targets", "Lowest", "Highest", "Stand out"),
        tuple(_spread_row(results, found, one, lost[one.case]) for one in found.figures),
        MOST_OF_TRIALS,
    )


def _outlying_row(results: OverTargets, found: Spread, target: str) -> tuple[Cell, ...]:
    of_target = found.outlying[target]
    far = of_target[0]
    sure = sum(one.is_sure for one in of_target)
    figures = sum(target in one.values for one in found.figures)
    one = far.figure
    about = f"{results.declared(one.metric).title}, {_case(results, one.case)}"
    summary = far.estimate.summary
    all_targets = href(results, ALL, one.case)
    unusual = list(found.hosts.get(target, ()))
    host = tuple(unusual[:_MOST_UNUSUAL]) or ("no difference from most others",)
    return (
        Cell.text(target, href=page_of(results, target)),
        Cell((f"{len(of_target)} of {figures}", f"{sure} certain")),
        Cell((human.quantity(one.values[target], one.unit), about), _href(results, target, one.case)),
        Cell((human.quantity(one.middle, one.unit), f"limits: {_range(*one.limits, one.unit)}"), all_targets),
        Cell((human.times(one.ratio(target)), f"{human.number(abs(far.distance))} robust deviations")),
        Cell((human.evidence(summary, one.unit), _agreement(far)), kind="text"),
        Cell(host, kind="text"),
    )  # fmt: skip


def _agreement(far: Outlying) -> str:
    if far.is_sure:
        return "the whole interval is beyond the limit"
    if far.estimate.summary.interval_low is None:
        return "too few trials to be sure"
    return "the interval reaches back to the limit"


def _unmeasured_row(target: str, why: str) -> tuple[Cell, ...]:
    return Cell.text(target), Cell.text("all", kind="failed"), Cell.text("–"), Cell.text(why)


def _lost_row(results: OverTargets, one: Lost) -> tuple[Cell, ...]:
    kind = "failed" if one.cases else "text"
    return (
        Cell.text(one.target, href=page_of(results, one.target)),
        Cell.text(f"{len(one.cases)} of {one.of_cases}", kind=kind),
        Cell.text(f"{one.failed:,} of {one.trials:,}"),
        Cell.text(one.cause),
    )


def _spread_row(results: OverTargets, found: Spread, one: Figure, failed: int) -> tuple[Cell, ...]:
    estimate = results.estimate(one.metric, ALL, one.case)
    assert estimate is not None, "targets gave it"
    usual = Cell((_range(*one.usual[1:], one.unit), one.usual[0])) if one.usual else MISSING
    stand_out = [target for target, of in found.outlying.items() if any(o.figure is one for o in of)]
    named = (many_targets.named(stand_out),) if stand_out else ()
    return (
        Cell.text(_case(results, one.case), href=href(results, ALL, one.case)),
        Cell.text(results.declared(one.metric).title),
        Cell((f"{len(one.values):,}", *([f"{failed:,} without a figure"] if failed else []))),
        Cell((human.median(estimate.summary, one.unit), human.evidence(estimate.summary, one.unit))),
        usual,
        *(_end(results, one, target) for target in (one.ranked[0], one.ranked[-1])),
        Cell((f"{len(stand_out):,}" if one.can_tell else "–", *named)),
    )


def _end(results: OverTargets, one: Figure, target: str) -> Cell:
    return Cell((human.quantity(one.values[target], one.unit), target), _href(results, target, one.case))


def _range(low: float, high: float, unit: str) -> str:
    return human.value_range((low, high), unit)


def _case(results: OverTargets, case: str) -> str:
    return results.case_name(ALL, case) or human.level(case)


def page_of(results: OverTargets, target: str) -> str:
    """The link from the family's page to a target's."""
    return f"./{target_page(results.family, target)}"


def _href(results: OverTargets, target: str, case: str) -> str:
    return f"{page_of(results, target)}#{results.anchors[ALL, case]}"


# -- verdicts ----------------------------------------------------------------------------------------------------------


def verdicts(results: OverTargets, each: Comparisons, together: Comparisons, name: str, caption: str) -> Table:
    """Count the verdicts of single targets, and name the targets that contradict the verdict over all targets."""
    over_all = {_about(row): row.outcome.verdict for row in together.rows}
    groups = grouped((_about(row), row) for row in each.rows)
    body = tuple(_verdict_row(results, key, rows, over_all.get(key)) for key, rows in groups.items())
    tests = next((row.outcome.tests for row in each.rows if row.outcome.tests), 0)
    adjusted = f"; adjusted by Benjamini-Hochberg over {human.plural(tests, 'test')}" if tests else ""
    counted = (*(v.told.capitalize() for v in Verdict),)
    return Table(
        f"{name}-each-target",
        f"{caption}: verdicts of single targets, counted{adjusted}",
        ("Compared", "Over all targets", *counted, "Contradict it"),
        body,
        MOST_OF_TRIALS,
    )


def _about(row: Row) -> tuple[str, ...]:
    """What is compared, without the target."""
    about = " · ".join(part for part in row.about.split(" · ") if part != row.other["target"])
    return row.level, row.against, row.title, about


def _verdict_row(
    results: OverTargets, key: tuple[str, ...], rows: Iterable[Row], over_all: Verdict | None
) -> tuple[Cell, ...]:  # fmt: skip
    level, against, title, about = key
    listed = list(rows)
    counts = Counter(row.outcome.verdict for row in listed)
    opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(over_all or Verdict.NONE)
    contrary = [
        row.other["target"]
        for row in listed
        if row.outcome.verdict is opposite or (opposite is None and row.outcome.verdict.is_difference)
    ]
    first = Cell.text(contrary[0], page_of(results, contrary[0])) if contrary else Cell.text("none")
    more = (f"and {len(contrary) - 1:,} more: {many_targets.named(contrary[1:])}",) if len(contrary) > 1 else ()
    return (
        Cell((f"{human.level(level)} against {human.level(against)}", " · ".join(filter(None, (title, about))))),
        Cell.text(over_all.told if over_all else "–"),
        *(Cell.text(f"{counts[verdict]:,}", kind="number") for verdict in Verdict),
        Cell((*first.lines, *more), first.href, "text"),
    )
