"""Questions 20 to 30: what the study claims, by which rule, and what else supports it.

docs/reports.md says what each question asks.
"""

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import polars as pl

from benchstudy.lints.ceilings import cache_speed_reads, low_ceiling, unsynced_writes
from benchstudy.model import registry
from benchstudy.report import human, prose
from benchstudy.report.checklist.lacking import Lack, having, in_cases, in_trials, unless_lacking
from benchstudy.report.checklist.model import Answer, does_not_apply, question
from benchstudy.report.checklist.numbers import first_page, names
from benchstudy.report.results import ceilings as report_ceilings
from benchstudy.report.results.results import raw_files
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts
from benchstudy.report.tables.tables import anchor

_MOST_NAMED = 3
_NO_COMPARISON = "No page compares two cases."
_ONE_CASE = "No family has two cases on a target, so there is nothing to compare."
_BEYOND_CEILING = (cache_speed_reads.name, unsynced_writes.name)


def _comparing(facts: StudyFacts) -> list[FamilyFacts]:
    return [family for family in facts.families if family.comparisons]


def _first_table(facts: StudyFacts) -> str:
    """The link to the first comparison."""
    family = _comparing(facts)[0]
    return f"{family.page}#{anchor('table', next(iter(family.notes['comparisons'])))}"


def _made(facts: StudyFacts) -> list[Mapping[str, Any]]:
    return [made for family in facts.families for made in family.comparisons]


def _without(facts: StudyFacts, what: str) -> tuple[list[str], str]:
    """The names of the comparisons that lack this, and the link to the first of them."""
    found, first = [], ""
    for family in _comparing(facts):
        for name, made in family.notes["comparisons"].items():
            found += [f"{family.name}: {each}" for each in made["lacking"][what]]
            first = first or (f"{family.page}#{anchor('table', name)}" if found else "")
    return found, first


def _answered(facts: StudyFacts, what: str, fine: str, problem: str) -> Answer:
    """The answer "satisfied" with the text `fine`, unless a comparison lacks `what`."""
    lacking, first = _without(facts, what)
    if not lacking:
        return Answer("satisfied", f"{fine}.", _first_table(facts))
    return Answer("not satisfied", f"{fine}. {problem}: {human.listed(lacking, _MOST_NAMED, '; ')}.", first)


def _nothing_compared(facts: StudyFacts, href: str) -> Answer:
    """The answer of a study without comparisons: two cases of a target should be compared, one cannot be."""
    if _has_pairs(facts):
        return Answer("not satisfied", _NO_COMPARISON, href)
    return does_not_apply(_ONE_CASE)


def _has_pairs(facts: StudyFacts) -> bool:
    """Whether some family has two cases on one target. Targets are not compared with one another."""
    per_target = (Counter(target for target, _ in family.results.outcomes) for family in facts.families)
    return any(count > 1 for counts in per_target for count in counts.values())


@question("Effect with interval")
def effect(facts: StudyFacts) -> Answer:
    made = _made(facts)
    total = sum(sum(m["verdicts"].values()) for m in made)
    known = sum(m["intervals"] for m in made)
    if not total:
        return _nothing_compared(facts, "#results")
    have = human.verb(known, total, "has", "have")
    text = f"{known} of {human.plural(total, 'comparison')} {have} a ratio with its 95 % interval and absolute figures"
    # Such as rates that both took as offered.
    if set_by_study := total - known - len(_without(facts, "interval")[0]):
        text += f"; for {set_by_study}, the study itself set both figures"
    # A family with one case has nothing to compare.
    quiet = [f for f in facts.families if not f.comparisons and len(f.results.outcomes) > 1]
    if quiet:
        return Answer("not satisfied", f"{text}. The cases of {names(quiet)} are not compared.", quiet[0].page)
    return _answered(facts, "interval", text, "The others give the reason")


@question("Multiplicity")
def multiplicity(facts: StudyFacts) -> Answer:
    judged = [group for family in facts.families for group in family.notes.get("judged", {}).values()]
    made = _made(facts)
    tests = [count for count in (*(m["tests"] for m in made), *map(len, judged)) if count]
    if not made or not tests:
        return does_not_apply("Nothing was tested." if made else _NO_COMPARISON)
    families = human.plural(len(tests), "declared group")
    listed = ", ".join(map(str, tests))
    text = f"{human.plural(sum(tests), 'test')} in {families} ({listed}), each adjusted by Benjamini-Hochberg"
    return _answered(facts, "adjusted", text, "Not adjusted")


@question("Thresholds declared before, and hashed")
def thresholds(facts: StudyFacts) -> Answer:
    if not _made(facts):
        return _nothing_compared(facts, "#hashes")
    edited = [lack for family in facts.families for lack in _edited(family)]
    post_hoc = [f for f in _comparing(facts) if any("post hoc" in m["margin"] for m in f.comparisons)]
    of_nothing = _margins_of_nothing(facts)
    if post_hoc:
        text = next(m["margin"] for m in post_hoc[0].comparisons if "post hoc" in m["margin"])
        return Answer("not satisfied", f"The margin of {names(post_hoc)} was {text}.", "#hashes")
    if of_nothing:
        text = "A margin is declared for a metric that no trial gave, so it has no effect"
        return Answer("not satisfied", f"{text}: {', '.join(of_nothing)}.", "#hashes")
    text = "The study declared the margin before the measurement, and its SHA-256 covers the margin."
    problem = "The study was edited between trials. These cases have trials from another version of it"
    return unless_lacking(edited, text, problem, "#hashes")


def _edited(family: FamilyFacts) -> list[Lack]:
    """Cases with trials that were measured under another version of the study than most trials."""
    hashes = Counter(family.measured["study_sha256"].to_list())
    usual = hashes.most_common(1)[0][0] if hashes else None
    same = family.measured.filter(pl.col("study_sha256") == usual)["trial"].to_list()
    return in_trials(family, family.measured, set(same))


def _margins_of_nothing(facts: StudyFacts) -> list[str]:
    """Margins of metrics that were not measured. Without this check, a misspelt name would go unnoticed."""
    measured = {family.name: family.results.metrics for family in facts.families}
    declared = [key for key in facts.study.thresholds.margins if "/" in key]
    return [key for key in declared if key.partition("/")[2] not in measured.get(key.partition("/")[0], ())]


@question("Smallest detectable effect")
def smallest_detectable(facts: StudyFacts) -> Answer:
    ends = [end for m in _made(facts) for end in m["detectable"]]
    if not ends:
        return does_not_apply("Nothing was tested." if _made(facts) else _NO_COMPARISON)
    span = " to ".join(dict.fromkeys(human.percent(end) for end in (min(ends), max(ends))))
    text = f"Each tested comparison has its smallest detectable effect: {span} beyond the margin"
    return _answered(facts, "detectable", text, "It is missing in")


@question("Plausibility against declared ceilings")
def ceilings(facts: StudyFacts) -> Answer:
    results = {family.name: family.results for family in facts.families}
    declared = [d for family in facts.families for d in report_ceilings.known(facts.study, family.name, results.get)]
    lost = sum(not known for _, known in declared)
    beyond = [f for f in facts.families if _open(f, _BEYOND_CEILING)]
    if not declared:
        return Answer("not satisfied", "The study declares no ceiling for its disks or networks (`ceilings`).")
    told = "; ".join(f"{c.op}s at most {c.source}" for _, known in declared for c in known)
    text = f"{human.plural(len(declared), 'ceiling')} declared{f': {told}' if told else ''}"
    text += f"; {lost} unknown, because the cases that measure it gave no value" if lost else ""
    text += f"; figures of {names(beyond)} exceed one" if beyond else "; no figure exceeds one without a reason"
    low = [f for f in facts.families if _open(f, (low_ceiling.name,))]
    text += f"; figures of {names(low)} whose bytes all came from storage exceed a measured one" if low else ""
    page = first_page(beyond or facts.families, "#lints")
    if beyond or lost:
        first = next((rule["first"] for f in beyond for rule in f.lints if rule["lint"] in _BEYOND_CEILING), "")
        return Answer("not satisfied", f"{text}{f', for example {first}' if first else ''}.", page)
    of_nothing = _ceilings_of_nothing(facts)
    if of_nothing:
        text = "A ceiling is declared for cases that there are not, so it has no effect"
        return Answer("not satisfied", f"{text}: {', '.join(of_nothing)}.", page)
    return unless_lacking(_unbounded(facts), f"{text}.", f"{text}. No ceiling is declared for", page)


def _ceilings_of_nothing(facts: StudyFacts) -> list[str]:
    """Patterns that match no case, measured or imported. Without this check, a misspelt level would go unnoticed."""
    cases = {family.name: [case for _, case in family.results.outcomes] for family in facts.families}
    return [
        f"ceilings.{number}.where {ceiling.where!r} of {ceiling.family}"
        for number, ceiling in enumerate(facts.study.ceilings)
        if ceiling.family in cases and not any(fnmatchcase(case, ceiling.where) for case in cases[ceiling.family])
    ]


def _unbounded(facts: StudyFacts) -> list[Lack]:
    """Cases that read or write files and that no ceiling applies to."""
    found = []
    for family in facts.families:
        declares = registry.get(family.name)
        patterns = [ceiling.where for ceiling in facts.study.ceilings if ceiling.family == family.name]
        if patterns or {declares.cache_factor, declares.sync_factor} & set(family.results.factors):
            keys = [key for key in family.results.outcomes if not any(fnmatchcase(key[1], p) for p in patterns)]
            found += in_cases(family, keys)
    return found


def _open(family: FamilyFacts, lints: tuple[str, ...]) -> int:
    return sum(rule["open"] for rule in family.lints if rule["lint"] in lints)


@question("Baseline of the same session")
def same_session(facts: StudyFacts) -> Answer:
    made = _made(facts)
    if not made:
        return does_not_apply(_NO_COMPARISON)
    total = sum(sum(m["verdicts"].values()) for m in made)
    other, _ = _without(facts, "session")
    same = total - len(other)
    use = human.verb(same, total, "uses", "use")
    text = f"{same} of {human.plural(total, 'comparison')} {use} trials of one session; verdicts need that"
    return _answered(facts, "session", text, "The others cross sessions and get no verdict")


@question("Numbers in prose generated from results")
def numbers_in_prose(facts: StudyFacts) -> Answer:
    typed = [(name, found) for name, nb in facts.notebooks.items() for found in prose.typed_numbers(nb)]
    unread = [family.name for family in facts.families if family.name not in facts.notebooks]
    if not typed and unread:
        return Answer("not satisfied", f"There is no executed notebook of {', '.join(unread)} to check.")
    if not typed:
        text = f"No number is typed into the prose of {human.plural(len(facts.notebooks), 'notebook')}"
        return Answer("satisfied", f"{text}.")
    name, first = typed[0]
    numbers = human.plural(len(typed), "number")
    text = f"{numbers} typed into the prose, the first in cell {first.cell} of {name}: “… {first.sentence} …”"
    return Answer("not satisfied", text, facts.link(facts.folder / f"{name}.html"))


@question("Capacity rule defined")
def capacity(facts: StudyFacts) -> Answer:
    searched, lacking = [], []
    for family in facts.families:
        asked = _searches(family)
        if not asked.is_empty():
            searched.append(family)
            lacking += in_trials(family, asked, having(family, _telling(family, "capacity", "bracket")))
    if not searched:
        return does_not_apply("No capacity is claimed: rates were measured, but none was searched for.")
    text = f"{names(searched)}: by a rule that the study declares, between a load that passed and one that failed."
    return unless_lacking(
        lacking, text, "An end of the bracket of passed and failed load is not known in", first_page(searched)
    )


def _telling(family: FamilyFacts, *what: str) -> list[str]:
    return [metric.name for metric in registry.get(family.name).metrics.values() if metric.tells in what]


def _searches(family: FamilyFacts) -> pl.DataFrame:
    """Trials that gave a metric that only a search for a capacity gives, even if its value is null."""
    of_searches = pl.col("metric").is_in(_telling(family, "capacity", "bracket", "search"))
    return family.succeeded.join(family.results.observations.filter(of_searches), on="trial", how="semi")


@question("Archived, licensed, checksummed")
def archived(facts: StudyFacts) -> Answer:
    licence = facts.study.license
    if not licence:
        return Answer(
            "not satisfied",
            "The study names no licence (`license`). All raw files have a `SHA256SUMS` beside them.",
            "#hashes",
        )
    lacking = []
    for family in facts.families:
        rows = family.results.trials.select("trial", "raw_files").iter_rows(named=True)
        summed = {row["trial"] for row in rows if all(file.get("sha256") for file in raw_files(row))}
        lacking += in_trials(family, family.results.trials, summed)
    text = f"The licence is {licence}. All raw files have a `SHA256SUMS` beside them. One archive holds all reports."
    return unless_lacking(lacking, text, "There are raw files without a SHA-256 in", "#hashes")


@question("Summaries consistent")
def consistent(facts: StudyFacts) -> Answer:
    silent = [family for family in facts.families if family.noted("lints") is None]
    impossible = [f for f in facts.families if any(r["severity"] == "error" and r["open"] for r in f.lints)]
    found = sum(rule["open"] for family in facts.families for rule in family.lints)
    if silent:
        return Answer("not satisfied", f"The lints did not check {names(silent)}.")
    text = "The lints found nothing"
    if found:
        text = f"The lints found no impossible figure, and {human.plural(found, 'other open finding')}"
    if impossible:
        errors = [
            rule for family in impossible for rule in family.lints if rule["severity"] == "error" and rule["open"]
        ]
        text = f"Figures of {names(impossible)} cannot be true, for example {errors[0]['first']}"
    page = first_page(impossible or facts.families, "#lints")
    return Answer("not satisfied" if impossible else "satisfied", f"{text}.", page)


@question("A/A calibration")
def calibration(facts: StudyFacts) -> Answer:
    noted = [(f, [n for n in f.notes.get("calibration", {}).values() if n["said"]]) for f in facts.families]
    done = [(family, found) for family, found in noted if found]
    notes = ((f, note) for f in facts.families for note in f.notes.get("calibration", {}).values())
    withheld = [(family, said) for family, note in notes for said in note["withheld"]]
    if withheld and not done:
        family, said = withheld[0]
        return Answer("not satisfied", f"{names([family])}: {said}", family.page)
    if not done and not _has_pairs(facts):
        return does_not_apply(_ONE_CASE)
    if not done:
        text = "The study measures no case under two names (A/A), so its false-alarm rate is unknown."
        return Answer("not satisfied", text)
    text = f"{names([family for family, _ in done])}: {done[0][1][0]['said'][0]}"
    without = [family for family, found in noted if family.comparisons and not found]
    if without:
        text += f" No case of {names(without)} is measured under two names."
        return Answer("not satisfied", text, without[0].page)
    of_one = [told for family, found in done if (told := _of_one(family, {case for n in found for case in n["cases"]}))]
    if of_one:
        return Answer("not satisfied", f"{text} The noise is known {'; '.join(of_one)}.", done[0][0].page)
    return Answer("satisfied", text, done[0][0].page)


def _of_one(family: FamilyFacts, twins: set[str]) -> str:
    """The one level, such as a size or a rate, at which a case is described twice, if the study measures several."""
    again = family.results.cases.filter(pl.col("case").is_in(list(twins)))
    for factor in registry.get(family.name).numeric_levels:
        if factor in again.columns:
            known, levels = again[factor].drop_nulls().unique().to_list(), family.results.levels(factor)
            if len(known) == 1 < len(levels):
                return f"only at {factor} {known[0]} in {family.name}, which measures {', '.join(levels)}"
    return ""
