"""Tables of write tests of logs: those of Tessera's page, and further ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from benchstudy.families.log_write.page.limits import NOTHING
from benchstudy.families.log_write.page.load import LogWrite, Point, Sweep
from benchstudy.families.shared.sweeps import Draw, failed_cell, rate_cell, rows_of
from benchstudy.report import human
from benchstudy.report.tables.tables import MISSING, Cell, Table, slug
from benchstudy.statistics import histograms, stats

_TIMES = {"queue": "Time in queue", "integrate": "Time to integrate"}
_STATISTICS = ("p50", "p90", "p99", "mean", "max")
_FEW_STEPS = 5  # a rate over fewer publish steps is marked
_MERGED = (50, 90, 99, 99.9)


class LogTables:
    """The tables of rates and times, made from `load`."""

    def __init__(self, load: LogWrite):
        self.load = load

    # -- the page's table ------------------------------------------------------------------------------------------

    def page(self) -> Table:
        """One row per backend and resources: the highest QPS without and with dedup, as far as measured, each with its
        offered rate."""
        several = [factor for factor in ("target", "front_ends", "duplicates") if self.load.varies(factor)]
        dedups = self._dedups(self.load.sweeps)
        body = []
        for sweeps in self.load.subjects():
            by_dedup = {sweep.dedup: sweep for sweep in sweeps}
            figures = [cell for dedup in dedups for cell in self._most(by_dedup.get(dedup))]
            first = sweeps[0]
            levels = [Cell.text(human.level(getattr(first, factor))) for factor in several]
            heads = (Cell.text(self.load.label(first)), Cell.text(self.load.resources(first)), *levels)
            body.append((*heads, Cell.text(self.load.loop(first)), *figures))
        titles = [factor.replace("_", " ").capitalize() for factor in several]
        columns = ("Backend", "Resources", *titles, "Generator")
        columns += tuple(f"{what}, {dedup}" for dedup in dedups for what in ("Offered", "QPS"))
        return Table("most", "Highest QPS achieved, and the rate offered for it", columns, tuple(body))

    @staticmethod
    def _dedups(sweeps: Iterable[Sweep]) -> list[str]:
        return list(dict.fromkeys(sweep.dedup for sweep in sorted(sweeps, key=lambda sweep: sweep.antispam)))

    def _most(self, sweep: Sweep | None) -> tuple[Cell, Cell]:
        if sweep is None:
            return MISSING, MISSING
        best = self.load.best(sweep)
        if best is None:
            point = next((p for p in sweep.every_point if self.load.estimate("qps", p)), None)
            return (MISSING, MISSING) if point is None else (Cell.text(point.level), self.rate_cell(point))
        point = best[0]
        return self._offered(point), self.rate_cell(point)

    def _offered(self, point: Point) -> Cell:
        offered = self.load.median("offered", point)
        text = human.quantity(offered, "1/s") if offered is not None else point.level
        return Cell((text,), self.load.href(point))

    def rate_cell(self, point: Point) -> Cell:
        """The integrated rate with its interval, its share of the offered rate, and why trials failed."""
        estimate = self.load.estimate("qps", point)
        counted, href = self.load.estimate("publish_steps", point), self.load.href(point)
        steps = None if counted is None else counted.summary.median
        if estimate is None:
            no_pair = Cell(("no two checkpoints in the window",), href, "failed")
            return MISSING if steps is None else no_pair
        results, marks = self.load.results, self.load.marks(point)
        if estimate.summary.median is None:
            return failed_cell(results, estimate, marks)
        lines = [human.evidence(estimate.summary, estimate.unit)]
        share = self.load.median("achieved_share", point)
        asked = "the offered rate" if point.rate is None else point.level
        lines += [f"{human.percent(share)} of {asked}"] if share is not None else []
        # A checkpoint that is a tenth of a step late changes such a rate by several per cent.
        if counted is not None and steps is not None and steps < _FEW_STEPS:
            low = f"{min(counted.values):g}–" if min(counted.values) < max(counted.values) else ""
            lines.append(f"over {low}{human.plural(round(max(counted.values)), 'publish step')}")
        return rate_cell(results, estimate, lines, marks, self.load.limit_texts(point)[:1])

    # -- every rate ------------------------------------------------------------------------------------------------

    def rates(self) -> Iterator[Table]:
        """A table of rates per backend, resources and generator, and one of times for all open loops. One row per
        offered rate, with columns without and with dedup. If a log was measured at one rate only, its rates repeat its
        row of `page`.
        """
        both = {"Offered": self._offered, "Achieved": self.rate_cell}
        for sweeps in self.load.subjects():
            name = self.load.name(sweeps[0], dedup=False, generator=False)
            columns = ("Rate", *(f"{what}, {sweep.dedup}" for sweep in sweeps for what in both))
            caption = f"Offered and achieved: {name} ({self.load.loop(sweeps[0])})"
            rows = tuple(self._by_rate(sweeps, [sweep.dedup for sweep in sweeps], both))
            repeats = all(len(sweep.every_point) < 2 for sweep in sweeps) and len(rows) == 1
            yield Table(slug(f"rates-{name}-{sweeps[0].generator}"), caption, columns, rows, repeats=repeats)
        yield self._times()

    def _times(self) -> Table:
        draws = {f"{heading}, p99": self.load.figure(f"{which}_p99") for which, heading in _TIMES.items()}
        dedups = self._dedups(sweep for sweep in self.load.sweeps if sweep.is_open)
        columns = ("Log", "Rate", *(f"{what}, {dedup}" for dedup in dedups for what in draws))
        rows = (
            (Cell.text(self.load.name(sweeps[0], dedup=False)), *row)
            for sweeps in self.load.subjects(is_open=True)
            for row in self._by_rate(sweeps, dedups, draws)
        )
        return Table("times", "Times by offered rate, open loop", columns, tuple(rows))

    def _by_rate(
        self, sweeps: Sequence[Sweep], dedups: Sequence[str], draws: Mapping[str, Draw]
    ) -> Iterator[tuple[Cell, ...]]:
        """Yield one row per offered rate: the rate, and what is drawn of each of the `dedups`."""
        loads = {point.rate: point.level for sweep in sweeps for point in sweep.points}
        of = {(sweep.dedup, point.rate): point for sweep in sweeps for point in sweep.points}
        for rate in sorted(loads, key=lambda rate: rate or 0.0):
            points = [of.get((dedup, rate)) for dedup in dedups]
            figures = [MISSING if at is None else draw(at) for at in points for draw in draws.values()]
            yield Cell.text(loads[rate]), *figures

    # -- one sweep in detail ---------------------------------------------------------------------------------------

    def details(self) -> Iterator[Table]:
        """One table per sweep with times and counts, one column per rate."""
        for sweep in self.load.sweeps:
            points = sweep.every_point
            body = tuple(rows_of(self._detail_rows(), points))
            name = self.load.name(sweep, generator=False)
            caption = f"{name} ({self.load.loop(sweep)}), by offered rate"
            table = slug(f"detail-{name}-{sweep.generator}")
            yield Table(table, caption, ("Offered rate", *(p.level for p in points)), body)

    def _detail_rows(self) -> Iterator[tuple[str, Draw]]:
        yield "Sent", self.load.figure("offered")
        yield "Integrated", self.load.figure("qps")
        yield "Integrated, share of the offered rate", self.load.figure("achieved_share", "%")
        yield "95 % interval within a trial", self._within
        for which, heading in _TIMES.items():
            for statistic in _STATISTICS:
                yield f"{heading}: {statistic}", self.load.figure(f"{which}_{statistic}")
            for percentile in _MERGED:
                yield f"{heading}, merged histograms: p{percentile:g}", self._together(which, percentile)
        for metric, heading in {
            "accepted": "Accepted", "duplicates": "Accepted duplicates", "pushback": "Pushback",
            "errors": "Errors", "dropped": "Not sent: in-flight limit",
        }.items():  # fmt: skip
            yield heading, self.load.figure(metric)
        yield "Tree size at the end", self.load.figure("tree_size")

    def _within(self, point: Point) -> Cell:
        trial = self.load.typical(point)
        values = self.load.trials(point).get(trial or "", {})
        if trial is None or "qps_low" not in values or "qps_high" not in values:
            return MISSING
        ends = human.value_range((values["qps_low"], values["qps_high"]), "1/s")
        return Cell((ends, "trial nearest to the median"), self.load.results.places.href(trial))

    def _median(self, metric: str, unit: str | None = None) -> Draw:
        """Like `figure`, but without interval and n, for wide tables."""
        draw = self.load.figure(metric, unit)

        def short(point: Point) -> Cell:
            cell = draw(point)
            return cell if cell is MISSING else Cell(cell.lines[:1], cell.href, cell.kind, cell.title)

        return short

    def _together(self, which: str, percentile: float) -> Draw:
        """The bucket with a percentile of all leaves of all trials: histograms can be merged, percentiles cannot."""
        found = self._quantiles(which, percentile)

        def draw(point: Point) -> Cell:
            if point.key not in found:
                return MISSING
            count, low, high = found[point.key]
            href = self.load.href(point)
            if not stats.supported(percentile, count):
                return Cell((f"needs {stats.smallest_n(percentile):,} leaves",), href, "missing")
            return Cell((human.value_range((low, high), "s"), f"of {count:,} leaves"), href)

        return draw

    def _quantiles(self, which: str, percentile: float) -> dict[tuple[str, str], tuple[int, float, float]]:
        rows = self.load.results.histogram("histogram")
        if rows is None or rows.is_empty():
            return {}
        edges = rows.filter(pl.col("which") == which)
        found = histograms.quantile_interval_from_histogram(edges, percentile / 100, ["target", "case"])
        return {(target, case): tuple(rest) for target, case, *rest in found.iter_rows()}

    # -- what was the limit ----------------------------------------------------------------------------------------

    def limits(self) -> Table:
        """One row per case that was at its limit in at least half of its trials: the limiting resource, and the share
        of its CPUs that each process used, as medians over trials.
        """
        shares = {
            "server_cpu": "Server CPU", "database_cpu": "Database CPU", "generator_cpu": "Generator CPU",
            "disk_busy": "Disk busy",
        }  # fmt: skip
        body = []
        for point in self.load.every_point:
            found = self.load.limits(point)
            limited = found.total() - found[NOTHING]
            if 2 * limited >= max(found.total(), 1) and self.load.median("qps", point) is not None:
                row = [self._median(metric, "%")(point) for metric in shares]
                row += [self._median(metric)(point) for metric in ("disk_write", "server_peak_memory")]
                head = f"{self.load.name(point.sweep)} · {point.level}"
                body.append((Cell.text(head), self._limit_cell(point), *row))
        columns = ("Case", "Limit", *shares.values(), "Disk writes", "Peak server memory")
        return Table("limits", "The limit in each case that did not achieve the offered rate", columns, tuple(body))

    def _limit_cell(self, point: Point) -> Cell:
        texts = self.load.limit_texts(point)
        counts = self.load.limits(point).most_common()
        lines = [f"{name} ({count} of {len(texts)})" if len(counts) > 1 else name for name, count in counts]
        marks = tuple(mark for mark in self.load.marks(point) if mark.endswith(("-limited", "-bound")))
        return Cell(tuple(lines), self.load.href(point), "number", " | ".join(dict.fromkeys(texts)), marks)

    # -- proofs --------------------------------------------------------------------------------------------------

    def proofs(self) -> Table:
        """One row per log: requested proofs, verified proofs, and trials that lost leaves."""
        body = [self._proofs_row(sweep) for sweep in self.load.sweeps]
        columns = ("Log", "Trials", "Proofs requested", "Proofs verified", "Trials that lost leaves")
        return Table("proofs", "Inclusion proofs against the last verified checkpoint", columns, tuple(body))

    def _proofs_row(self, sweep: Sweep) -> tuple[Cell, ...]:
        points = sweep.every_point
        asked, proved = (sum(self.load.total(f"proofs_{what}", p) for p in points) for what in ("asked", "proved"))
        lost = sum(self.load.lost_trials(point) for point in points)
        estimates = [e for point in points if (e := self.load.estimate("qps", point)) is not None]
        first = next((p for p in points if self.load.lost_trials(p)), points[0])
        href = self.load.href(first)
        causes = [reason.words for e in estimates for reason, _ in e.causes]
        verdict = Cell((str(lost),), href, "failed", " ".join(causes), ("lost leaf",)) if lost else Cell.text("none")
        figures = (Cell((f"{asked:,.0f}",), href), Cell((f"{proved:,.0f}",), href))
        if not asked:
            figures = (Cell(("none",), kind="missing", title="an imported screen has no log to query"), MISSING)
        trials = Cell.text(f"{sum(e.results for e in estimates):,}")
        return (Cell.text(self.load.name(sweep)), trials, *figures, verdict)
