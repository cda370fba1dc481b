"""Pages for single targets of a study with many: figures beside those of all targets, sessions, and trials.

Each is one plain HTML file without a script. `trialplaces` decides which page lists a trial.
"""

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from benchstudy.lints import Finding
from benchstudy.model import registry
from benchstudy.model.criteria import FAR
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits.cells import failures
from benchstudy.report.results.over_targets import ALL, OneTarget, OverTargets, each_target
from benchstudy.report.results.trialplaces import target_page
from benchstudy.report.scrutiny import evidence, lint_list, many_targets, outliers
from benchstudy.report.tables.tables import MISSING, Cell, Table, definition_list
from benchstudy.report.trials import trialpages
from benchstudy.report.trials.triallist import TrialList, TrialPage, commands_of

_ENDS = 5  # targets named at either end, lowest and highest, of a case


@dataclass(frozen=True)
class Places:
    """Folders and records: `root` is the project, `output` the exports of the family's page, `indexes` its sessions."""

    root: Path
    output: Path
    indexes: evidence.Indexes


def write(
    results: OverTargets, metrics: Sequence[str], places: Places, flagged: Mapping[str, str], lints: Sequence[Finding]
) -> str:
    """Write the pages. Returns HTML for the family's page, with links to them.

    `metrics` are those shown with each trial. `flagged` has remarks by trial; `lints` are the findings on all targets.
    """
    made = _Pages(results, metrics, places, flagged, lints)
    trialpages.write(made.pages(), places.output / "targets", places.output.parent)
    return _section(results)


class _Pages:
    def __init__(
        self, results: OverTargets, metrics: Sequence[str], places: Places, flagged: Mapping[str, str],
        lints: Sequence[Finding],
    ):  # fmt: skip
        self._results, self._metrics, self._places, self._flagged = results, metrics, places, flagged
        self._indexes = grouped((index["target"], index) for index in places.indexes)
        self._hosts = many_targets.facts_of_hosts(places.indexes)
        self._unusual = many_targets.unusual(self._hosts)
        # `where` is "family: target, …".
        self._lints = grouped((finding.where.partition(": ")[2].partition(",")[0], finding) for finding in lints)
        # Primary metrics are first.
        rest = [metric for metric in results.metrics if metric not in results.primary_metrics]
        self._shown = [*results.primary_metrics, *rest]
        self._fleet = {
            (metric, case): np.sort([value for _, value, _ in values])
            for metric in self._shown
            for (_, case), values in results.by_case(metric).items()
        }
        self._medians = {key: float(np.median(values)) for key, values in self._fleet.items()}
        self._spreads = {
            key: (self._medians[key], outliers.spread(values.tolist()))
            for key, values in self._fleet.items()
            if outliers.can_tell(values.tolist())
        }

    def pages(self) -> Iterator[TrialPage]:
        """Yield the pages of all targets, with their further parts."""
        title = registry.get(self._results.family).title
        for own in each_target(self._results.measured):
            for path, listed in self._parts(own):
                folder = (self._places.output.parent / path).parent
                back = os.path.relpath(self._places.output.parent, folder) + f"/{self._results.family}.html"
                is_first = path == target_page(self._results.family, own.target)
                head = self._head(own) if is_first else ""
                trials = TrialList(listed, self._metrics, self._places.root, folder, self._flagged, is_open=True)
                inner = f'{head}<h2 id="trials">Trials</h2>{trials.html()}'
                yield TrialPage(path, f"{title} on {own.target}", f"{back}#targets", inner)

    def _parts(self, own: OneTarget) -> Iterator[tuple[str, OneTarget]]:
        """Yield the paths of a target's pages, with the results that each lists."""
        measured = self._results.measured
        where = pl.Series([measured.places.page(trial) for trial in own.trials["trial"]], dtype=pl.String)
        paths = dict.fromkeys([target_page(self._results.family, own.target), *where])
        for path in paths:
            yield (
                path,
                own
                if len(paths) == 1
                else OneTarget(measured, own.trials.filter(where == path), own.observations, own.cases),
            )

    def _head(self, own: OneTarget) -> str:
        indexes = self._indexes.get(own.target, [])
        facts = [*self._hosts.get(own.target, {}).items()]
        unusual = "\n".join(self._unusual.get(own.target, ()))
        facts += [("Different from most targets", unusual)] if unusual else []
        facts += [("Problem", index["problem"]) for index in indexes if index.get("problem")]
        facts += [fact for index in indexes for fact in evidence.session_facts(index, several=False)]
        lints = self._lints.get(own.target, [])
        return (
            f"{evidence.overview(own, indexes)}<h2>Figures</h2>{self._figures(own).html()}"
            f"<h2>Hosts and sessions</h2>{definition_list([fact for fact in facts if fact[1]])}"
            f"<h2>Lints</h2>{lint_list.section(lints)}"
        )

    def _figures(self, own: OneTarget) -> Table:
        """One row per case and metric, beside the figures of all targets."""
        rows = [
            (Cell.text(own.case_name(own.target, case) or human.level(case)), *cells)
            for case in own.cases["case"]
            for metric in self._shown
            if (cells := self._row(own, case, metric)) is not None
        ]
        columns = ("Case", "Figure", "Median", "Median of all targets", "Ratio to it", "Rank from the lowest")
        return Table("figures", "Each figure of this target, beside that of all targets", columns, tuple(rows))

    def _row(self, own: OneTarget, case: str, metric: str) -> tuple[Cell, ...] | None:
        """The row of a case and metric; None if the case does not give the metric."""
        estimate, fleet = own.estimate(metric, own.target, case), self._fleet.get((metric, case))
        if estimate is None or fleet is None:
            return None
        way, summary, over_all = f"#{own.anchors[own.target, case]}", estimate.summary, self._medians[metric, case]
        title = Cell.text(own.declared(metric).title)
        if summary.median is None:
            lost = Cell(tuple(failures(estimate)) or (summary.note,), way, "failed")
            return title, lost, Cell((human.quantity(over_all, self._unit(metric)),)), MISSING, MISSING
        said = [human.evidence(summary, estimate.unit), *failures(estimate)]
        ratio = human.times(summary.median / over_all) if over_all else "–"
        rank = int(np.searchsorted(fleet, summary.median, side="left")) + 1
        middle = self._spreads.get((metric, case))
        far = abs(np.log(summary.median / middle[0])) / middle[1] if middle and summary.median > 0 else 0.0
        stands_out = [f"stands out: {human.number(float(far))} robust deviations"] if far > FAR else []
        return (
            title,
            Cell((human.median(summary, estimate.unit), *said), way),
            Cell((human.quantity(over_all, estimate.unit),)),
            Cell((ratio, *stands_out), kind="number warning" if stands_out else "number"),
            Cell((f"{rank:,} of {len(fleet):,}",)),
        )

    def _unit(self, metric: str) -> str:
        return next((unit for values in self._results.by_case(metric).values() for *_, unit in values), "1")


# -- on the family's page ----------------------------------------------------------------------------------------------


def _section(results: OverTargets) -> str:
    """Each case with its lowest and highest targets, then links to all targets."""
    count = human.plural(len(results.measured.targets), "target")
    said = (
        f"Each of {count} has its own page in {results.family}/targets, beside this page, with its figures, sessions, "
        "trials and raw files."
    )
    rows = dict(results.trials.partition_by("case", as_dict=True, maintain_order=True))
    cases = "".join(_case(results, case, rows.get((case,))) for case in results.cases["case"])
    ways = " ".join(
        f'<a href="{html.escape(target_page(results.family, target))}">{html.escape(target)}</a>'
        for target in results.measured.targets
    )
    every = f'<details class="case" id="every-target"><summary>All {count}</summary><p>{ways}</p></details>'
    return f"<p>{html.escape(said)}</p>{cases}{every}"


def _case(results: OverTargets, case: str, rows: pl.DataFrame | None) -> str:
    anchor, name = results.anchors[ALL, case], html.escape(human.level(case))
    if rows is None:
        counted, inner = "not measured on any target", ""
    else:
        failed = rows.filter(pl.col("status") != "ok").height
        counted = human.plural(rows.height, "target") + (f", {failed:,} without a figure" if failed else "")
        commands, verified = commands_of(rows.to_dicts())
        inner = commands + verified + "".join(_ends(results, case, metric) for metric in results.primary_metrics)
    return (
        f'<details class="case" id="{html.escape(anchor)}"><summary><code>{name}</code> '
        f'<span class="count">{html.escape(counted)}</span></summary>{inner}</details>'
    )


def _ends(results: OverTargets, case: str, metric: str) -> str:
    """The targets with the lowest and with the highest figures."""
    values = sorted(results.by_case(metric).get((ALL, case), []), key=lambda one: one[1])
    if not values:
        return ""
    targets = {trial: target for trial, target in results.names.select("trial", "target").iter_rows()}
    parts = [("lowest", values[:_ENDS]), ("highest", values[_ENDS:][-_ENDS:][::-1])]
    said = "; ".join(
        f"{word}: {', '.join(_end(results, case, targets[trial], value, unit) for trial, value, unit in named)}"
        for word, named in parts
        if named
    )
    return f"<p>{html.escape(results.declared(metric).title)}, {said}.</p>"


def _end(results: OverTargets, case: str, target: str, value: float, unit: str) -> str:
    way = f"{target_page(results.family, target)}#{results.anchors[ALL, case]}"
    return f'<a href="{html.escape(way)}">{html.escape(target)}</a> {html.escape(human.quantity(value, unit))}'
