"""Pages for single targets of a study with many: figures beside those of all targets, sessions, and trials.

Each is one plain HTML file without a script. `trialplaces` decides which page lists a trial.
"""

import html
import math
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from benchstudy.lints import Finding
from benchstudy.model import registry
from benchstudy.model.criteria import FAR
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits.cells import failures
from benchstudy.report.results.over_targets import ALL, OneTarget, OverTargets, each_target
from benchstudy.report.results.trialplaces import target_page
from benchstudy.report.scrutiny import evidence, lint_list, many_targets
from benchstudy.report.tables.tables import MISSING, Cell, Table, definition_list
from benchstudy.report.targets.spread import Figure, figures_of
from benchstudy.report.trials.triallist import KEPT, TrialList, TrialPage, commands_of

_ENDS = 5  # targets named at either end, lowest and highest, of a case


class TargetPages:
    """The trials of `results`, each on the page of its target.

    The first arguments are those of `TrialList`. `indexes` are the records of the family's sessions, and `lints` the
    findings on all targets.
    """

    def __init__(
        self, results: OverTargets, metrics: Sequence[str], root: Path, page_folder: Path, flagged: Mapping[str, str],
        indexes: evidence.Indexes, lints: Sequence[Finding],
    ):  # fmt: skip
        self._results, self._metrics, self._flagged = results, metrics, flagged
        self._root, self._page_folder = root, page_folder
        self._indexes = grouped((index["target"], index) for index in indexes)
        self._hosts = many_targets.facts_of_hosts(indexes)
        self._unusual = many_targets.unusual(self._hosts)
        # `where` is "family: target, …".
        self._lints = grouped((finding.where.partition(": ")[2].partition(",")[0], finding) for finding in lints)
        # Primary metrics are first.
        rest = [metric for metric in results.metrics if metric not in results.primary_metrics]
        self._shown = [*results.primary_metrics, *rest]
        self._fleet = {(one.metric, one.case): one for one in figures_of(results, self._shown)}

    def pages(self) -> Iterator[TrialPage]:
        """Yield the pages of all targets, with their further parts."""
        title = registry.get(self._results.family).title
        for own in each_target(self._results.measured):
            for path, listed in self._parts(own):
                folder = (self._page_folder / path).parent
                back = os.path.relpath(self._page_folder, folder) + f"/{self._results.family}.html"
                is_first = path == target_page(self._results.family, own.target)
                head = self._head(own) if is_first else ""
                trials = TrialList(listed, self._metrics, self._root, folder, self._flagged, is_open=True)
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
        way, summary = f"#{own.anchors[own.target, case]}", estimate.summary
        title = Cell.text(own.declared(metric).title)
        if summary.median is None:
            lost = Cell(tuple(failures(estimate)) or (summary.note,), way, "failed")
            return title, lost, Cell((human.quantity(fleet.middle, fleet.unit),)), MISSING, MISSING
        said = [human.evidence(summary, estimate.unit), *failures(estimate)]
        ratio = human.times(summary.median / fleet.middle) if fleet.middle else "–"
        rank = bisect_left(fleet.ranked, summary.median, key=fleet.values.__getitem__) + 1
        far = abs(math.log(summary.median / fleet.middle)) / fleet.deviation if fleet.can_tell else 0.0
        stands_out = [f"stands out: {human.number(far)} robust deviations"] if far > FAR else []
        return (
            title,
            Cell((human.median(summary, estimate.unit), *said), way),
            Cell((human.quantity(fleet.middle, estimate.unit),)),
            Cell((ratio, *stands_out), kind="number warning" if stands_out else "number"),
            Cell((f"{rank:,} of {len(fleet.values):,}",)),
        )

    # -- on the family's page ------------------------------------------------------------------------------------------

    def html(self) -> str:
        """The section of the family's page: each case with its lowest and highest targets, and links to all targets."""
        results = self._results
        count = human.plural(len(results.measured.targets), "target")
        said = (
            f"Each of {count} has its own page in {results.family}/targets, beside this page, with its figures, "
            "sessions, trials and raw files."
        )
        rows = dict(results.trials.partition_by("case", as_dict=True, maintain_order=True))
        cases = "".join(self._case(case, rows.get((case,))) for case in results.cases["case"])
        ways = " ".join(
            f'<a href="{html.escape(target_page(results.family, target))}">{html.escape(target)}</a>'
            for target in results.measured.targets
        )
        every = f'<details class="case" id="every-target"><summary>All {count}</summary><p>{ways}</p></details>'
        return f"<p>{html.escape(said)} {KEPT}</p>{cases}{every}"

    def _case(self, case: str, rows: pl.DataFrame | None) -> str:
        anchor, name = self._results.anchors[ALL, case], html.escape(human.level(case))
        if rows is None:
            counted, inner = "not measured on any target", ""
        else:
            failed = rows.filter(pl.col("status") != "ok").height
            counted = human.plural(rows.height, "target") + (f", {failed:,} without a figure" if failed else "")
            primary = (self._fleet.get((metric, case)) for metric in self._results.primary_metrics)
            inner = "".join([*commands_of(rows.to_dicts()), *(self._ends(one) for one in primary if one)])
        return (
            f'<details class="case" id="{html.escape(anchor)}"><summary><code>{name}</code> '
            f'<span class="count">{html.escape(counted)}</span></summary>{inner}</details>'
        )

    def _ends(self, one: Figure) -> str:
        """The targets with the lowest and with the highest figures."""
        parts = [("lowest", one.ranked[:_ENDS]), ("highest", one.ranked[_ENDS:][-_ENDS:][::-1])]
        said = "; ".join(
            f"{word}: {', '.join(self._end(one, target) for target in targets)}" for word, targets in parts if targets
        )
        return f"<p>{html.escape(self._results.declared(one.metric).title)}, {said}.</p>"

    def _end(self, one: Figure, target: str) -> str:
        way = f"{target_page(self._results.family, target)}#{self._results.anchors[ALL, one.case]}"
        figure = human.quantity(one.values[target], one.unit)
        return f'<a href="{html.escape(way)}">{html.escape(target)}</a> {html.escape(figure)}'
