"""The interface for notebooks: one `Page` per notebook, one call per figure or table.

Every call shows its result, and writes it below the page's exports (`figures/*.svg|png|pdf`,
`tables/*.csv|rst|md|tex`).
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchstudy.lints import Finding
from benchstudy.model import paths
from benchstudy.report import human
from benchstudy.report.comparisons import answers, findings, verdicts, wording
from benchstudy.report.comparisons.comparison import Comparisons, calibrations, twin_cases, twins, within_noise
from benchstudy.report.exhibits import cells
from benchstudy.report.exhibits.exhibits import show
from benchstudy.report.exhibits.pagefigures import PageFigures
from benchstudy.report.exhibits.pagetables import PageTables
from benchstudy.report.figures.layers import Reference
from benchstudy.report.figures.styles import Style
from benchstudy.report.published import published
from benchstudy.report.results import estimatefiles, over_targets, sessions
from benchstudy.report.results.over_targets import OverTargets
from benchstudy.report.results.results import Results, Titled, Where
from benchstudy.report.scrutiny import disturbed, evidence, lint_list, scrutiny
from benchstudy.report.tables.tables import anchor, slug
from benchstudy.report.targets import section, spread
from benchstudy.report.targets.targetpages import TargetPages
from benchstudy.report.trials import trialpages
from benchstudy.report.trials.triallist import TrialList
from benchstudy.statistics.comparisons import Comparison, tested


class Page(PageTables, PageFigures):
    """The report of one family. `tidy` and `output` are folders, absolute or relative to the project.

    If empty, `study` is that of config/config.yaml, `tidy` has its tables, and `output` is below scratch/.
    """

    def __init__(self, family: str, *, study: str, tidy: str | Path, output: str | Path):
        super().__init__(study=study, output=output, page=family)
        self.family = family
        self._has_explained = False  # how verdicts are made, once, with the first of them
        # `measured` is everything that was measured, `results` what the page shows. With few targets they are the same.
        folder = self.root / (tidy or f"data/tidy/{self.study}/{family}")
        self.measured = Results(folder, study=self.study, family=family)
        self.results = over_targets.as_shown(self.measured)
        # The records of the family's sessions, one per target.
        self.indexes = sessions.family_indexes(self.root, self.study, family, self.measured.targets)

    @property
    def declared(self) -> Mapping[str, Any]:
        """The family's block of the study at the latest measurement; empty if nothing was measured."""
        return sessions.declared(self.indexes, self.family)

    # -- choosing ----------------------------------------------------------------------------------------------------

    def levels(self, factor: str, **where: str | Sequence[str]) -> list[str]:
        """The levels of `factor` among the cases that `where` selects, in the order of the study."""
        return self.results.levels(factor, where)

    def views(
        self, title: str, factor: str, shared: Sequence[str] = (), **where: str | Sequence[str]
    ) -> dict[str, Where]:
        """One choice of cases for each level of `factor`, by a title such as "Write, sync fsync"."""
        variants = self.results.variants(factor, shared, where)
        return {f"{title}, {factor} {levels[0]}": {**where, factor: levels} for levels in variants}

    def named(self, where: Where) -> str:
        """A choice of cases in the words of the family, by the first of several levels: "Write 100 MB with fsync"."""
        first = {factor: levels if isinstance(levels, str) else levels[0] for factor, levels in where.items()}
        text = wording.of(self.family).setting(first).removeprefix("to ").removeprefix("for ")
        return text[:1].upper() + text[1:]

    @staticmethod
    def slug(title: str) -> str:
        """`title` as a name for files: lower case, with hyphens."""
        return slug(title)

    # -- sections ----------------------------------------------------------------------------------------------------

    def overview(self) -> None:
        """Show the number of trials behind the page, and what a reader must know first."""
        show(evidence.overview(self.measured, self.indexes))
        if isinstance(self.results, OverTargets):
            self.say([section.introduction(self.results)])
        if self.measured.disturbed:
            self.flags([f"{disturbed.sentence(self.measured)} {disturbed.remedy(self.indexes)}"])

    def show_answers(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Show answers, and below them what is known of their targets if there are many."""
        super().show_answers(answers)
        if not answers:
            gave = self.measured.counts()["ok"]
            short = "No trial gave a figure for a short answer. The sections below show what was measured."
            self.say([short if gave else "No trial gave a result."])  # it stays at the top, which `nothing` does not
        if isinstance(self.results, OverTargets):
            self._targets(self.results)

    def answer(self, groups: Mapping[str, tuple[str, Where]], *, series: str) -> None:
        """Show for each group `{title: (metric, choice of cases)}` the sorted medians and intervals of its series.

        `answer.json` keeps the same for the index. Series that repeat another one under a second name (A/A) are left
        out; `calibration` shows them.
        """
        once = self.without_twins({})
        only = {series: once[series]} if series in once else {}
        found = (
            answers.answer(self.results, label, metric, only | dict(where), series)
            for label, (metric, where) in groups.items()
        )
        self.show_answers([answer for answer in found if answer])

    # -- comparisons -------------------------------------------------------------------------------------------------

    def compare(
        self, name: str, metrics: Titled, *, factor: str, caption: str, aside: bool = False, **choice: Any
    ) -> None:
        """Compare each level of `factor` with a base, as a figure and a table of ratios with their verdicts.

        If there is a figure, the table is folded below it. Levels that repeat another one under a second name (A/A)
        are left out; `calibration` shows them. `aside`: the comparison is about how something is measured, and is
        never the study's headline.

        `metrics` are names, or {metric: title} to replace the declared titles. `choice` goes to `Comparisons`: `base`,
        `where`, `counterparts`, `across_tools`, `unfit`, `settled`, `gives`. All comparisons of one call are one group
        for the adjustment of their p values.
        """
        found = self._compared(metrics, factor=factor, **choice)
        if not found.rows:
            return self.nothing(found.nothing(caption))
        self.note("comparisons", name, verdicts.summarised(found, caption))
        self.note("findings", name, findings.of(found, wording.of(self.family), aside=aside))
        if not self._has_explained:
            self._has_explained = True
            with self.folded("How ratios and verdicts are made"):
                show(verdicts.EXPLAINED)
        levels = self.results.levels(factor, choice.get("where"))
        style = Style(tuple(map(found.name, levels)))
        panels = found.panels(style)
        if panels:
            self.say([found.summary()])
            told = f"{caption}. Bars: 95 % intervals; filled: better or worse; band: the margin; logarithmic axis."
            self.show_figure(name, told, panels, style, found.drawn, f"Against {found.base_name}")
            with self.folded(f"{human.plural(len(found.rows), 'comparison')} as a table, with p values"):
                self.show_table(found.table(name, caption))
        else:
            self.show_table(found.table(name, caption), found.summary())
        if isinstance(self.results, OverTargets) and "unfit" not in choice:
            each = self._compared(metrics, factor=factor, of=self.measured, **choice)
            self.note("judged", f"{name}-each-target", tested(row.outcome for row in each.rows))
            self.show_table(section.verdicts(self.results, each, found, name, caption))

    def judged(self, groups: Mapping[str, Sequence[Comparison]]) -> None:
        """Record comparisons that the page made without `compare`, by name, so that the study counts their tests."""
        for name, outcomes in groups.items():
            self.note("judged", name, tested(outcomes))

    def verdicts(self, questions: Mapping[str, Mapping[str, Any]], metrics: Titled) -> None:
        """Show short answers from comparisons: `{question: arguments of `compare`}`.

        Each leads to the table that `compare` shows under the same `name`. The overview gets them from
        `compare`, so nothing is recorded here.
        """
        found = []
        for question, asked in questions.items():
            compared = self._compared(metrics, **{key: value for key, value in asked.items() if key != "name"})
            if compared.rows:
                found.append(verdicts.answer(compared, question, f"#{anchor('table', asked['name'])}"))
        if found:
            show(evidence.answers(found))

    def _compared(
        self, metrics: Titled, *, where: Where | None = None, of: Results | None = None, **choice: Any
    ) -> Comparisons:
        results = of or self.results
        made = Comparisons(results, self.indexes, metrics, where=self.without_twins(where or {}), **choice)
        made.rows = within_noise(made.rows, results, self.indexes, self.declared)
        return made

    def without_twins(self, where: Where) -> Where:
        """The choice of cases `where`, without levels that repeat another one under a second name (A/A)."""
        again = {second for _, second in twins(self.declared)}
        levels = {f: self.results.levels(f, {f: where[f]} if f in where else {}) for f in self.results.factors}
        return {**where, **{f: [v for v in known if v not in again] for f, known in levels.items() if again & {*known}}}

    def calibration(self, metrics: Titled) -> None:
        """Show how often this study finds a difference where there is none, if it describes a case twice (A/A)."""
        found, withheld = calibrations(self.results, self.indexes, metrics, self.declared)
        again = twin_cases(self.results, self.declared) if found else []
        self.note("calibration", ", ".join(metrics), {"said": found, "withheld": withheld, "cases": again})
        if found or withheld:
            return self.say([*found, *withheld])
        self.nothing("No case of this family is measured under two names (A/A), so its false-alarm rate is unknown.")

    # -- evidence ----------------------------------------------------------------------------------------------------

    def published_references(self, file: str, op: str, section: str) -> list[Reference]:
        """Reference lines for figures from `data/published/FILE`: what others published about `op` in `section`."""
        return published.references(paths.published(self.root) / file, op, section=section)

    def published_problems(self, file: str, **kwargs: Any) -> None:
        """Show what is impossible in published figures; nothing if all is possible."""
        found = published.impossible(paths.published(self.root) / file, **kwargs)
        show("".join(f'<p class="flag">{html.escape(text)}.</p>' for text in found))

    def published(self, name: str, file: str, **kwargs: Any) -> None:
        """Show figures that others published in a separate table, and flag impossible ones."""
        self.show_table(published.table(paths.published(self.root) / file, name, **kwargs))

    def method(self) -> None:
        """Show how the trials were made: order, blocks, hosts, tools and statistics."""
        show(evidence.method(self.measured, self.indexes))

    def weaknesses(self, extra: Iterable[str] = ()) -> None:
        """Show the weaknesses of the figures, those in `extra` first, and a section with the findings of the lints."""
        weak = [
            *extra,
            *disturbed.weaknesses(self.measured, self.indexes),
            *evidence.weak_points(self.measured, self.indexes),
            *scrutiny.points(self._scrutiny),
        ]
        for kind, entry in scrutiny.notes(self._scrutiny, weak, self._lints).items():
            self.note(kind, self.family, entry)
        rest = "on the pages of their targets" if isinstance(self.results, OverTargets) else ""
        lints = lint_list.section(self._lints, rest=rest)
        show(f"{evidence.weakness_list(weak)}<h2>Lints</h2>{lints}")

    @cached_property
    def _lints(self) -> list[Finding]:
        return lint_list.of_family(self.measured, lint_list.declared(self.root, self.study))

    @cached_property
    def _scrutiny(self) -> scrutiny.Scrutiny:
        return scrutiny.scrutinise(self.measured, self.indexes)

    # -- many targets ------------------------------------------------------------------------------------------------

    def _targets(self, results: OverTargets) -> None:
        """Show which targets differ from the others, and the evidence."""
        found = spread.find(results, self.indexes)
        show(f"<h2>Targets</h2><p>{html.escape(found.said)}</p>")
        style, panels = section.figure(results, found)
        self.show_figure("targets", section.FIGURE_CAPTION, panels, style)
        for table in section.tables(results, found):
            if table.rows:
                self.show_table(table)

    def trials(self, metrics: Sequence[str]) -> None:
        """Show every trial with its command and raw files, and write all estimates and trials as CSV files.

        The list shows the values of `metrics`; the CSV files have all metrics.
        """
        estimates = (e for metric in sorted(self.measured.metrics) for e in self.measured.estimates(metric))
        marks = partial(cells.all_marks, self.measured)
        estimatefiles.write_estimates(estimates, self.output / "tables" / "estimates.csv", marks)
        estimatefiles.write_trials(self.measured, self.output / "tables" / "trials.csv")
        places = (self.root, self.output.parent, self._scrutiny.flagged)
        found: TargetPages | TrialList
        if isinstance(self.results, OverTargets):
            found, folder = TargetPages(self.results, metrics, *places, self.indexes, self._lints), "targets"
        else:
            found, folder = TrialList(self.results, metrics, *places), "trials"
        trialpages.write(found.pages(), self.output / folder, self.output.parent)
        show(
            f'<p class="downloads">In base units: every estimate of every metric '
            f"{self._downloads('tables', 'estimates', ('csv',))}, every trial with its values "
            f"{self._downloads('tables', 'trials', ('csv',))}</p>{found.html()}"
        )
