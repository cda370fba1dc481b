"""Questions 12 to 19: hosts, tools, and whether a load was what it was meant to be."""

import polars as pl

from benchstudy.report import human
from benchstudy.report.checklist.model import Answer, does_not_apply, question, satisfied_if
from benchstudy.report.checklist.numbers import first_page, named
from benchstudy.report.scrutiny.disturbed import cases
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts

_HOW = "#how-this-was-measured"


@question("Environment before and after, compared")
def environment(facts: StudyFacts) -> Answer:
    seen = [environment for _, session in facts.sessions for environment in session["hosts"].values()]
    whole = [environment for environment in seen if environment.get("before") and environment.get("after")]
    changes = sum(len(environment.get("diff") or ()) for environment in whole)
    if not seen:
        return Answer("not satisfied", "No session recorded its hosts.", "#hosts")
    held = human.plural(len(seen), "session")
    text = f"Recorded before and after {len(whole)} of {held} of a host: {human.plural(changes, 'change')}"
    met = [(family, family.results.case_name(*key)) for family in facts.families for key in cases(family.results)]
    if met:
        text += f". Others disturbed trials of {human.plural(len(met), 'case')}, such as {met[0][0].name}: {met[0][1]}"
    return satisfied_if(len(whole) == len(seen) and not met, f"{text}.", "#hosts")


def _share_known(facts: StudyFacts, *columns: str) -> tuple[int, int]:
    """Trials that ran something and know all of these, and how many ran something at all."""
    known = total = 0
    for family in facts.families:
        ran = family.measured.filter(pl.col("tool").is_not_null())
        total += ran.height
        known += ran.drop_nulls(list(columns)).height
    return known, total


@question("Tool and system versions, SHA-256 of binaries")
def versions(facts: StudyFacts) -> Answer:
    known, total = _share_known(facts, "tool_version", "tool_sha256")
    text = f"{known} of {human.plural(total, 'trial')} name the version of their tool and the SHA-256 of its file"
    return satisfied_if(
        0 < total == known, f"{text}; kernel and system stand with the hosts.", first_page(facts.families, _HOW)
    )


@question("Exact argv")
def argv(facts: StudyFacts) -> Answer:
    known, total = _share_known(facts, "argv")
    text = f"{known} of {human.plural(total, 'trial')} have the command line of all they ran, word by word"
    return satisfied_if(0 < total == known, f"{text}.", first_page(facts.families, "#trials"))


@question("Load generator not saturated")
def generator(facts: StudyFacts) -> Answer:
    loads = [family for family in facts.families if family.has_load]
    if not loads:
        return does_not_apply("No load generator is at work.")
    open_findings = {f.name: sum(rule["open"] for rule in f.lints if rule["lint"] == "client-limited") for f in loads}
    unknown = [f for f in loads if not f.results.telling("generator")]
    limited = {name: count for name, count in open_findings.items() if count}
    text = f"The generator's processors were watched in {named([f for f in loads if f not in unknown]) or 'no family'}"
    text += f", not in {named(unknown)}" if unknown else ""
    text += "; " + (
        ", ".join(f"{n} figures of {name} are client-limited" for name, n in limited.items())
        or "no figure is client-limited"
    )
    return satisfied_if(
        not limited and not unknown, f"{text}.", first_page([f for f in loads if f.name in limited] or loads, "#lints")
    )


@question("Open or closed loop named")
def loop(facts: StudyFacts) -> Answer:
    loads = [family for family in facts.families if family.has_load]
    if not loads:
        return does_not_apply("No load generator is at work.")
    loops = {f.name: sorted({str(found["loop"]) for found in f.verified if "loop" in found}) for f in loads}
    text = "; ".join(f"{name}: {' and '.join(found) or 'not named'}" for name, found in loops.items())
    return satisfied_if(all(loops.values()), f"{text}.", first_page(loads))


@question("Failures counted, with Wilson's interval")
def failures(facts: StudyFacts) -> Answer:
    noted = [(family, found) for family in facts.families if (found := family.noted("failures"))]
    if not noted:
        return Answer("not satisfied", "No page counts them.", "#failed")
    text = "; ".join(f"{family.name} {f['failed']} of {f['trials']} ({f['interval']})" for family, f in noted)
    return satisfied_if(len(noted) == len(facts.families), f"{text}.", "#failed")


@question("Offered and achieved rate")
def offered(facts: StudyFacts) -> Answer:
    is_open = [f for f in facts.families if any(found.get("loop") == "open" for found in f.verified)]
    if not is_open:
        return does_not_apply("No load is offered at a rate of its own.")
    without = [family for family in is_open if not family.results.telling("offered")]
    text = f"Both stand side by side for {named([f for f in is_open if f not in without])}"
    text = f"{named(without)} does not tell what was offered" if without else text
    return satisfied_if(not without, f"{text}.", first_page(without or is_open))


@question("Mix shift")
def mix_shift(facts: StudyFacts) -> Answer:
    mixed = [family for family in facts.families if _is_mixed(family)]
    if not mixed:
        return does_not_apply("No figure is a mean over kinds of requests whose shares could shift.")
    told = [family for family in mixed if family.noted("mix_shift") is not None]
    text = f"What a changed mix of requests contributes is told apart from all else: {named(told) or 'nowhere'}"
    return satisfied_if(len(told) == len(mixed), f"{text}.", first_page(mixed))


def _is_mixed(family: FamilyFacts) -> bool:
    labels = family.results.series("labels")
    return labels is not None and not labels.is_empty()
