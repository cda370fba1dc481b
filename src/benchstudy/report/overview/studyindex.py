"""The content of a study's first page as plain data; the template turns it into HTML and escapes all of it."""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from benchstudy import __version__
from benchstudy.model import registry
from benchstudy.model.interference import Disturbance
from benchstudy.report import human
from benchstudy.report.checklist.checklist import Answer, answered
from benchstudy.report.figures.vega import FIGURE_FORMATS
from benchstudy.report.overview import fleet, primarytable
from benchstudy.report.overview.headlines import Headline, headline, meanings
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed, evidence, many_targets
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts
from benchstudy.report.study.studypages import STUDY_PAGES
from benchstudy.report.tables.tables import TABLE_FORMATS, anchor
from benchstudy.statistics.comparisons import Tested, Verdict, share, standing

# The first page takes five minutes to read; the linked pages have everything.
_MOST_LINES, _LONGEST_POINT, _LONGEST_TEXT = 6, 180, 300
_MOST_ANSWERS, _FEWEST_ANSWERS = 8, 2  # that all families share, but each has the fewest at least
_NO_CAUSE = "no cause recorded"
_DISCARDED = pl.col("discarded_why").is_not_null()
_REPEATED = ~_DISCARDED & (pl.col("set_aside").is_not_null() | (pl.col("status") == "aborted"))


class StudyIndex:
    """One study's facts, with links relative to its folder of reports."""

    def __init__(self, facts: StudyFacts):
        self._facts, self._study, self._indexes = facts, facts.study, facts.indexes
        self._folder, self._link = facts.folder, facts.link
        self._results = {family.name: family.results for family in facts.families}

    def context(self) -> dict[str, Any]:
        """The values of the template, without a link to the archive of all reports."""
        checklist = [
            {"number": number, "title": title, "status": a.status, "text": a.text, "href": a.href, "reason": a.reason}
            for number, (title, a) in enumerate(self._answered, start=1)
        ]
        primary, total = primarytable.rows(self._facts.families)
        return {
            "name": self._study.study,
            "title": self._study.title or self._study.study,
            "question": self._study.question,
            "original": self._study.repeats,
            "authors": ", ".join(author.name for author in self._study.authors),
            "licence": self._study.license,
            "badges": Markup(evidence.badges(evidence.count_badges(self._total()))),
            "archive": None,
            "multiplicity": self._multiplicity(),
            "headlines": self.headlines,
            "details": {family.name: self._detail(family) for family in self._facts.families},
            "meanings": self._meanings(),
            "primary": primary,
            "more_primary": total - len(primary),
            "shared_levels": primarytable.shared_levels(self._facts.families),
            "families": [self._family(family) for family in self._facts.families],
            "pages": self._pages(),
            "problems": self._problems(),
            "disturbed": self._disturbed(),
            "badges_disturbed": human.plural(self._total().get("disturbed", 0), "trial"),
            "weak": [self._weak(family) for family in self._facts.families],
            "failures": [row for name, results in self._results.items() for row in self._failures(name, results)],
            "discarded": self._not_counted(_DISCARDED),
            "repeated": self._not_counted(_REPEATED),
            "repeated_counts": self._repeated_counts(),
            "hosts": self._hosts(),
            "checklist": checklist,
            "checked": Counter(row["status"] for row in checklist),
            "sessions": self._sessions(),
            "hashes": self._hashes(),
            "version": __version__,
            "measured": " to ".join(dict.fromkeys(sessions.moment(when)[:10] for when in self.measured)),
        }

    @cached_property
    def headlines(self) -> list[Headline]:
        """One headline per family."""
        return [headline(family) for family in self._facts.families]

    @property
    def measured(self) -> list[str]:
        """The first and the last moment of measurement, in ISO 8601; empty if nothing was measured."""
        held = [session for _, session in self._facts.sessions]
        return [min(s["started"] for s in held), max(s["finished"] for s in held)] if held else []

    @property
    def state(self) -> str:
        """One line on the state of the study: trials, sessions that did not complete, the checklist."""
        total = self._total()
        lost = total["trials"] and total["failed"] + total["timeout"]
        counts = Counter(answer.status for _, answer in self._answered)
        parts = [f"{human.plural(total['trials'], 'trial')}, {lost} failed"]
        if lost and not total["ok"]:
            cause, times = self._causes().most_common(1)[0]
            parts = [f"No trial succeeded: {lost} of {lost} failed, {times} of them with this cause: {cause}"]
        parts += [f"{human.plural(len(self._problems()), 'session')} cut short"] if self._problems() else []
        parts.append(f"{counts['satisfied']} of {counts.total()} checks satisfied, {counts['not satisfied']} open")
        return "; ".join(parts)

    @cached_property
    def _answered(self) -> list[tuple[str, Answer]]:
        return answered(self._facts)

    def _total(self) -> dict[str, int]:
        counts = [results.counts() for results in self._results.values()]
        return {key: sum(c[key] for c in counts) for key in counts[0]} if counts else {"trials": 0}

    def _meanings(self) -> list[str]:
        """What the words mean that stand beside the findings."""
        marked = any((family.noted("steady") or {}).get("cases") for family in self._facts.families)
        settled = "Not steady means that the trials of a case still changed or varied too much for a steady state."
        return [*meanings(self._facts.families), *([settled] if marked else [])]

    def _detail(self, family: FamilyFacts) -> dict[str, Any]:
        """What stands beside a family's sentence: the page's answers, and how far equal cases differ."""
        answers = [self._answer(family.page, answer) for answer in family.answers]
        most = max(_MOST_ANSWERS // len(self._facts.families), _FEWEST_ANSWERS)
        shown = answers[:most]
        return {
            "answers": shown,
            "cards": Markup(evidence.answers(shown)),
            "more_answers": len(answers) - len(shown),
            "href": family.page,
            "calibrations": [s for found in family.notes.get("calibration", {}).values() for s in found["said"]],
        }

    def _family(self, family: FamilyFacts) -> dict[str, Any]:
        # With many targets, the page of each target links to its own raw files.
        few = () if family.results.has_many_targets else self._indexes
        raw = [self._link(Path(index["file"])) for index in few if index["family"] == family.name]
        figures = list(family.notes.get("figures", {}).values())
        return {
            "name": family.name,
            "title": family.title,
            "badges": Markup(evidence.badges(evidence.count_badges(family.results.counts()))),
            "comparisons": [self._comparison(family, *found) for found in family.notes.get("comparisons", {}).items()],
            "figure": Markup(family.figure()),
            "more_panels": max(figures[-1]["panels"] - figures[-1]["shown"], 0) if figures else 0,
            "report": family.page,
            "notebook": self._link(self._folder / "notebooks" / f"{family.name}.ipynb"),
            "files": self._files(family.exports),
            "raw": raw,
        }

    @cached_property
    def _tested(self) -> dict[tuple[str, str], list[Tested]]:
        """What was tested on all pages, by (family, table)."""
        found: dict[tuple[str, str], list[Tested]] = {}
        for family in self._facts.families:
            compared = {name: made.get("tested", []) for name, made in family.notes.get("comparisons", {}).items()}
            for name, made in {**compared, **family.notes.get("judged", {})}.items():
                if made:
                    found[family.name, name] = [tuple(one) for one in made]
        return found

    @cached_property
    def _standing(self) -> dict[tuple[str, str], tuple[int, int]]:
        return dict(zip(self._tested, standing(list(self._tested.values())), strict=True))

    def _multiplicity(self) -> str:
        """A sentence on all tests of the study together, because each table is adjusted on its own."""
        tests = sum(map(len, self._tested.values()))
        if not tests:
            return ""
        if len(self._tested) == 1:
            return f"This study makes {human.plural(tests, 'test')} in one group, which is adjusted as a whole."
        made, stand = (sum(counts) for counts in zip(*self._standing.values(), strict=True))
        return (
            f"This study makes {human.plural(tests, 'test')} in {human.plural(len(self._tested), 'group')}, and each "
            "group is adjusted separately (Benjamini-Hochberg). If all tests are adjusted together, "
            f"{stand} of {human.plural(made, 'verdict')} of better, worse or equivalent {_remain(stand, made)}."
        )

    def _over_the_study(self, family: str, name: str) -> str:
        """How many of one table's verdicts remain if all tests of the study are adjusted together."""
        if (family, name) not in self._standing or len(self._tested) < 2:
            return ""
        made, stand = self._standing[family, name]
        tests = sum(map(len, self._tested.values()))
        return (
            f" If all {tests} tests of the study are adjusted together, {stand} of {human.plural(made, 'verdict')} "
            f"{_remain(stand, made)}."
            if made
            else ""
        )

    def _answer(self, page: str, found: Mapping[str, Any]) -> dict[str, Any]:
        """One card: both ends of its lines, of which the last ones may be cases that failed. Links lead to `page`.

        Long texts are shortened: the whole log of a server that died is shown with its trial.
        """
        lines = [
            {
                **line,
                "evidence": self._shortened(line["evidence"]),
                "href": f"{page}{line['href']}" if "href" in line else "",
            }
            for line in found["lines"]
        ]
        more = len(lines) - 2 * _MOST_LINES
        lines = lines if more <= 0 else lines[:_MOST_LINES] + lines[-_MOST_LINES:]
        notes = [found["note"], *([f"{human.plural(more, 'line')} in between, on its page."] if more > 0 else [])]
        return {**found, "lines": lines, "note": " ".join(filter(None, notes))}

    def _comparison(self, family: FamilyFacts, name: str, found: Mapping[str, Any]) -> dict[str, Any]:
        """One table of verdicts. A comparison of many levels is cut; the family's page has the rest."""
        lines = found["lines"]
        return {
            "caption": found["caption"],
            "summary": found["summary"] + self._over_the_study(family.name, name),
            "counted": ", ".join(f"{count} {Verdict(v).counted}" for v, count in found["verdicts"].items()),
            "lines": lines[:_MOST_LINES],
            "more": len(lines) - _MOST_LINES if len(lines) > _MOST_LINES else 0,
            "href": f"{family.page}#{anchor('table', name)}",
        }

    def _weak(self, family: FamilyFacts) -> dict[str, Any]:
        """The first weakness on the family's page and the number of others; the worst open lint and the number."""
        points = family.noted("weak") or []
        order = ("error", "warning", "note")
        lints = sorted((r for r in family.lints if r["open"]), key=lambda rule: order.index(rule["severity"]))
        return {
            "title": family.title,
            "href": f"{family.page}#what-is-weak",
            "first": human.first_sentences(points[0], _LONGEST_POINT) if points else "",
            "more": max(len(points) - 1, 0),
            "findings": sum(rule["open"] for rule in lints),
            "worst": lints[0] if lints else None,
            "lints_href": f"{family.page}#lints",
            "silent": family.noted("weak") is None,
        }

    @staticmethod
    def _shortened(text: str) -> str:
        return human.shortened_within(text, _LONGEST_TEXT)

    def _files(self, exports: Path) -> list[dict[str, Any]]:
        """Each table, then each figure of a page once, by name, with a link for each of its formats."""
        return [
            {
                "name": stem,
                "formats": [
                    {"name": suffix.upper(), "href": self._link(path)}
                    for suffix in formats
                    if (path := folder / f"{stem}.{suffix}").is_file()
                ],
            }
            for folder, formats in ((exports / "tables", TABLE_FORMATS), (exports / "figures", FIGURE_FORMATS))
            for stem in sorted({path.stem for suffix in formats for path in folder.glob(f"*.{suffix}")})
        ]

    def _pages(self) -> list[dict[str, Any]]:
        """Those of the study's own pages that exist."""
        made = [(title, self._folder / f"{name}.html") for name, title in STUDY_PAGES.items()]
        return [
            {
                "title": title,
                "href": self._link(path),
                "notebook": self._link(self._folder / "notebooks" / f"{path.stem}.ipynb"),
                "files": self._files(self._folder / path.stem),
            }
            for title, path in made
            if path.is_file()
        ]

    def _problems(self) -> list[str]:
        said = [f"{i['family']} on {i['target']}: {i['problem']}" for i in self._indexes if i.get("problem")]
        return many_targets.cut(said)

    @cached_property
    def _is_fleet(self) -> bool:
        return any(results.has_many_targets for results in self._results.values())

    def _disturbed(self) -> list[str]:
        return [
            f"{family.title}: {disturbed.sentence(family.results)} Figures are marked, and verdicts are withheld. "
            f"{disturbed.remedy(index for index in self._indexes if index['family'] == family.name)}"
            for family in self._facts.families
            if family.results.disturbed
        ]

    def _causes(self) -> Counter[str]:
        """The causes of failed trials, shortened, each with its count."""
        failed = [results.counted.filter(pl.col("status") != "ok")["cause"] for results in self._results.values()]
        return Counter(self._shortened(cause or _NO_CAUSE) for causes in failed for cause in causes)

    def _failures(self, name: str, results: Results) -> list[dict[str, Any]]:
        """One row per case with its causes, each with its count and a link to the first such trial.

        With many targets, a row is about a case on all of them, and has its most frequent causes.
        """
        many = results.has_many_targets
        by = ["case"] if many else ["case", "target"]
        totals = Counter(results.counted.select(by).iter_rows())
        rows = []
        for key, lost in results.counted.filter(pl.col("status") != "ok").group_by(by, maintain_order=True):
            total, targets = totals[key], lost["target"].unique(maintain_order=True).to_list()
            causes: list[dict[str, Any]] = [
                {
                    "text": self._shortened(cause or _NO_CAUSE),
                    "count": group.height,
                    "href": self._trial_link(results, group["trial"][0]),
                }
                for (cause,), group in lost.group_by("cause", maintain_order=True)
            ]
            causes.sort(key=lambda cause: -cause["count"])
            rows.append(
                {
                    "family": registry.get(name).title,
                    "case": results.case_name(targets[0], str(key[0]), but=("target",)),
                    "target": fleet.on_targets(targets) if many else targets[0],
                    "count": f"{lost.height:,} of {human.plural(total, 'trial')}",
                    "interval": share(lost.height, total).interval,
                    "causes": causes[: fleet.MOST_CAUSES] if many else causes,
                    "href": causes[0]["href"],
                }
            )
        return rows

    def _not_counted(self, which: pl.Expr) -> list[dict[str, Any]]:
        """Rows of trials that are kept but do not count, of all families."""
        found: list[dict[str, Any]] = []
        for family in self._facts.families:
            rows = [
                {
                    "trial": row["trial"],
                    "case": family.results.case_name(row["target"], row["case"]),
                    "what": _why_aside(row),
                    "href": self._trial_link(family.results, row["trial"]),
                }
                for row in family.results.trials.filter(which).iter_rows(named=True)
            ]
            found += fleet.set_aside(rows, family.page) if family.results.has_many_targets else rows
        return found

    def _repeated_counts(self) -> str:
        """How many trials were measured again because others disturbed them, and how many were aborted."""
        total = self._total()
        told = {"disturbed trial": total["repeated"], "aborted trial": total["aborted"]}
        return ", ".join(human.plural(count, noun) for noun, count in told.items() if count)

    def _trial_link(self, results: Results, trial: str) -> str:
        return f"{self._link(self._folder / results.places.page(trial))}#trial-{trial}"

    def _hosts(self) -> list[dict[str, Any]]:
        """Each host once, with what sessions found and every change that one noticed; all its facts are the latest."""
        found: dict[str, dict[str, Any]] = {}
        texts = sessions.host_texts(seen for index in self._indexes for seen in sessions.environments(index))
        for index in self._indexes:
            for name, environment in sessions.environments(index):
                facts = environment.get("before") or {}
                host = found.setdefault(name, {"name": name, "changes": [], "lines": [], "facts": ""})
                host["lines"] = [(fact, " and ".join(told)) for fact, told in texts[name].items()]
                host["facts"] = json.dumps(facts, indent=1, ensure_ascii=False)
                host["changes"] += [f"{index['family']}: {change}" for change in environment.get("diff") or ()]
        for family, results in self._results.items():
            for name, count in Counter(seen.host for seen in results.disturbed.values()).items():
                if name in found:
                    found[name]["changes"].append(f"{family}: other work disturbed {human.plural(count, 'trial')}")
        return fleet.alike(list(found.values())) if self._is_fleet else list(found.values())

    def _sessions(self) -> list[dict[str, Any]]:
        if self._is_fleet:
            return fleet.held(self._facts.sessions)
        return [
            {
                "family": index["family"],
                "target": index["target"],
                "uuid": session["uuid"][:8],
                "seed": session["seed"],
                "when": sessions.span(session["started"], session["finished"]),
                "controller": session["controller"],
                "events": session["events"],
            }
            for index, session in self._facts.sessions
        ]

    def _hashes(self) -> list[tuple[str, str]]:
        lines = [("Study as it is now", self._study.sha256)]
        for name, results in self._results.items():
            lines += [(f"Instrument of {name}", sha) for sha in evidence.instruments(results)]
            declared = results.counted["study_sha256"].drop_nulls().unique(maintain_order=True).to_list()
            lines += [
                (f"Study when {name} was measured (post hoc: it was edited since)", sha)
                for sha in declared
                if sha != self._study.sha256
            ]
        return lines


def _remain(verdicts: int, made: int) -> str:
    return human.verb(verdicts, made, "remains", "remain")


def _why_aside(row: Mapping[str, Any]) -> str:
    if row["discarded_why"]:
        return f"discarded: {row['discarded_why']}"
    if row["set_aside"]:
        found = disturbed.told(Disturbance.read(json.loads(row["disturbance"])))
        return f"disturbed, and replaced by trial {row['set_aside']}: {found}"
    return f"aborted: {row['cause']}"
