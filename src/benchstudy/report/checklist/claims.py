"""Questions 20 to 30: what is claimed, by which rule, and what else speaks for it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchstudy.report import human, prose
from benchstudy.report.checklist.model import Answer, does_not_apply, question, satisfied_if
from benchstudy.report.checklist.numbers import first_page, named
from benchstudy.report.results import ceilings as report_ceilings
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts
from benchstudy.report.tables.tables import anchor

_NO_COMPARISON = "No page compares two cases."
_BEYOND_CEILING = ("cache-speed-reads", "unsynced-writes")


def _comparing(facts: StudyFacts) -> list[FamilyFacts]:
    return [family for family in facts.families if family.comparisons]


def _first_table(facts: StudyFacts) -> str:
    """Where the first comparison stands."""
    family = _comparing(facts)[0]
    return f"{family.page}#{anchor('table', next(iter(family.notes['comparisons'])))}"


def _made(facts: StudyFacts) -> list[Mapping[str, Any]]:
    return [made for family in facts.families for made in family.comparisons]


@question("Effect with interval")
def effect(facts: StudyFacts) -> Answer:
    made = _made(facts)
    total = sum(sum(m["verdicts"].values()) for m in made)
    known = sum(m["intervals"] for m in made)
    if not total:
        return Answer("not satisfied", _NO_COMPARISON, "#results")
    text = f"{known} of {human.plural(total, 'comparison')} have a ratio with its 95 % interval, on absolute figures"
    text += "; the others say why not" if known < total else ""
    return satisfied_if(known > 0, f"{text}.", _first_table(facts))


@question("Multiplicity")
def multiplicity(facts: StudyFacts) -> Answer:
    tests = [m["tests"] for m in _made(facts) if m["tests"]]
    if not tests:
        return does_not_apply("Nothing was tested." if _made(facts) else _NO_COMPARISON)
    families = human.plural(len(tests), "declared group")
    listed = ", ".join(map(str, tests))
    text = f"{sum(tests)} tests in {families} ({listed}), each adjusted by Benjamini-Hochberg"
    return Answer("satisfied", f"{text}.", _first_table(facts))


@question("Thresholds declared before, and hashed")
def thresholds(facts: StudyFacts) -> Answer:
    margins = {m["margin"] for m in _made(facts)}
    edited = [f for f in facts.families if f.measured["study_sha256"].drop_nulls().n_unique() > 1]
    post_hoc = sorted(text for text in margins if "post hoc" in text)
    of_nothing = _margins_of_nothing(facts)
    text = "The margin was declared in the study before the measurement, under the study's SHA-256"
    if edited:
        text = f"The study was edited between trials of {named(edited)}"
    elif post_hoc:
        text = f"The margin was {post_hoc[0]}"
    elif of_nothing:
        text = f"A margin is declared for what no trial gave, and so holds for nothing: {', '.join(of_nothing)}"
    holds = bool(margins) and not (post_hoc or edited or of_nothing)
    return satisfied_if(holds, f"{text}." if margins else _NO_COMPARISON, "#hashes")


def _margins_of_nothing(facts: StudyFacts) -> list[str]:
    """Margins of metrics that their family did not measure: a misspelt one would be passed over in silence."""
    measured = {family.name: family.results.metrics for family in facts.families}
    declared = [key for key in facts.study.thresholds.margins if "/" in key]
    return [key for key in declared if key.partition("/")[2] not in measured.get(key.partition("/")[0], ())]


@question("Smallest detectable effect")
def smallest_detectable(facts: StudyFacts) -> Answer:
    ends = [end for m in _made(facts) for end in m["detectable"]]
    if not ends:
        return does_not_apply("Nothing was tested." if _made(facts) else _NO_COMPARISON)
    span = " to ".join(human.percent(end) for end in (min(ends), max(ends)))
    text = f"Printed with each comparison: {span} beyond the margin"
    return Answer("satisfied", f"{text}.", _first_table(facts))


@question("Plausibility against declared ceilings")
def ceilings(facts: StudyFacts) -> Answer:
    results = {family.name: family.results for family in facts.families}
    declared = [d for family in facts.families for d in report_ceilings.known(facts.study, family.name, results.get)]
    lost = sum(not known for _, known in declared)
    beyond = [f for f in facts.families if _open(f, _BEYOND_CEILING)]
    if not declared:
        return Answer("not satisfied", "The study declares no ceiling of its disks or networks (`ceilings`).")
    told = "; ".join(f"{c.op}s at most {c.source}" for _, known in declared for c in known)
    text = f"{human.plural(len(declared), 'ceiling')} declared{f': {told}' if told else ''}"
    text += f"; {lost} not known, because the cases that measure it gave nothing" if lost else ""
    text += f"; figures of {named(beyond)} lie above" if beyond else "; no figure lies above, or the study says why"
    return satisfied_if(not beyond and not lost, f"{text}.", first_page(beyond or facts.families, "#lints"))


def _open(family: FamilyFacts, lints: tuple[str, ...]) -> int:
    return sum(rule["open"] for rule in family.lints if rule["lint"] in lints)


@question("Baseline of the same session")
def same_session(facts: StudyFacts) -> Answer:
    made = _made(facts)
    if not made:
        return does_not_apply(_NO_COMPARISON)
    refused = sum((Counter(m["refused"]) for m in made), Counter())
    other = sum(n for why, n in refused.items() if "session" in why or "targets" in why or "imported" in why)
    total = sum(sum(m["verdicts"].values()) for m in made)
    text = f"Verdicts are on trials of one session only: {total - other} of {human.plural(total, 'comparison')}"
    text += f"; {other} would have crossed sessions and got none" if other else ""
    return Answer("satisfied", f"{text}.", _first_table(facts))


@question("Numbers in prose generated from results")
def numbers_in_prose(facts: StudyFacts) -> Answer:
    typed = [(name, found) for name, nb in facts.notebooks.items() for found in prose.typed_numbers(nb)]
    if not facts.notebooks:
        return Answer("not satisfied", "There is no executed notebook to look at.")
    if not typed:
        text = f"{human.plural(len(facts.notebooks), 'notebook')} looked at: no number is typed into their prose"
        return Answer("satisfied", f"{text}.")
    name, first = typed[0]
    numbers = human.plural(len(typed), "number")
    text = f"{numbers} typed into prose, the first in cell {first.cell} of {name}: “… {first.sentence} …”"
    return Answer("not satisfied", text, facts.link(facts.folder / f"{name}.html"))


@question("Capacity rule defined")
def capacity(facts: StudyFacts) -> Answer:
    searched = [f for f in facts.families if f.results.telling("capacity")]
    if not searched:
        return does_not_apply("No capacity is claimed: rates were measured, none was searched for.")
    text = f"{named(searched)}: by a rule that the study declares, as a bracket of what passed and what failed"
    return Answer("satisfied", f"{text}.", first_page(searched))


@question("Archived, licensed, checksummed")
def archived(facts: StudyFacts) -> Answer:
    licence = facts.study.license
    said = f"Licence {licence}" if licence else "The study names no licence (`license`)"
    text = f"{said}; `SHA256SUMS` beside all raw files; every report in one archive"
    return satisfied_if(bool(licence), f"{text}.", "#hashes")


@question("Summaries consistent")
def consistent(facts: StudyFacts) -> Answer:
    silent = [family for family in facts.families if family.noted("lints") is None]
    impossible = [f for f in facts.families if any(r["severity"] == "error" and r["open"] for r in f.lints)]
    found = sum(rule["open"] for family in facts.families for rule in family.lints)
    if silent:
        return Answer("not satisfied", f"No lint looked at {named(silent)}.")
    text = f"Lints found nothing that cannot be so, and {found} open points besides" if found else "Lints found nothing"
    if impossible:
        text = f"Figures of {named(impossible)} cannot be so"
    return satisfied_if(not impossible, f"{text}.", first_page(impossible or facts.families, "#lints"))


@question("A/A calibration")
def calibration(facts: StudyFacts) -> Answer:
    done = [f for f in facts.families if any(f.notes.get("calibration", {}).values())]
    if not done:
        return Answer(
            "not satisfied", "No case is described twice, so the study's own rate of false alarms is not known."
        )
    sentences = [s for f in done for found in f.notes["calibration"].values() for s in found]
    return Answer("satisfied", f"{named(done)}: {sentences[0]}", first_page(done))
