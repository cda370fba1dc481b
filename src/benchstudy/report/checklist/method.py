"""Questions 12 to 19: hosts, tools, and whether the load was as intended.

docs/reports.md says what each question asks.
"""

from collections.abc import Iterator

import polars as pl

from benchstudy.report import human
from benchstudy.report.checklist.lacking import having, in_cases, in_trials, unless_lacking
from benchstudy.report.checklist.model import Answer, does_not_apply, question
from benchstudy.report.checklist.numbers import first_page, names, silent
from benchstudy.report.scrutiny import programs
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts

_HOW = "#how-this-was-measured"
_MOST_CHANGES = 5


@question("Environment before and after, compared")
def environment(facts: StudyFacts) -> Answer:
    held, changes, whole = 0, 0, set()
    for _, session in facts.sessions:
        seen = list(session["hosts"].values())
        held += len(seen)
        changes += sum(len(environment.get("diff") or ()) for environment in seen if environment.get("after"))
        if seen and all(environment.get("before") and environment.get("after") for environment in seen):
            whole.add(session["uuid"])
    if not held:
        return Answer("not satisfied", "No session recorded its hosts.", "#hosts")
    lacking, disturbed = [], []
    for family in facts.families:
        known = family.succeeded.filter(pl.col("session").is_in(list(whole)))["trial"].to_list()
        lacking += in_trials(family, family.succeeded, set(known))
        quiet = set(family.succeeded["trial"].to_list()) - set(family.results.disturbed)
        disturbed += in_trials(family, family.succeeded, quiet)
    between = {change for family in facts.families for change in _changes_between(family, facts)}
    text = f"Recorded before and after each of {human.plural(held, 'session')} of a host. Changes: {changes}."
    if between:
        told = human.listed([f"{fact} of {host}" for host, fact, _ in sorted(between)], _MOST_CHANGES)
        text += f" Changes between sessions: {len(between)}, {told}."
    if lacking:
        return unless_lacking(lacking, text, "The environment before and after the session is unknown for", "#hosts")
    return unless_lacking(disturbed, text, f"{text} Other work disturbed trials of", "#hosts")


def _changes_between(family: FamilyFacts, facts: StudyFacts) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    return programs.changes_of_hosts(family.results, [i for i in facts.indexes if i["family"] == family.name])


def _programs_known(facts: StudyFacts, fine: tuple[str, str], fragment: str, *columns: str) -> Answer:
    """The answer about trials that gave figures, and those that failed after they had started a program."""
    lacking, total = [], 0
    for family in facts.families:
        ran = family.results.counted.filter((pl.col("status") == "ok") | pl.col("tool").is_not_null())
        total += ran.height
        lacking += in_trials(family, ran, set(ran.drop_nulls(list(columns))["trial"].to_list()))
    if not total:
        return Answer("not satisfied", "No trial ran a program.")
    lost = sum(lack.trials for lack in lacking)
    known = f"{total - lost} of {human.plural(total, 'trial')} {human.verb(total - lost, total, *fine)}."
    page = first_page(facts.families, fragment)
    return unless_lacking(lacking, known, f"{known} Those without are in", page, fragment)


@question("Tool and system versions, SHA-256 of binaries")
def versions(facts: StudyFacts) -> Answer:
    rest = "tool and the SHA-256 of its file; kernel and system are listed with the hosts"
    fine = f"names the version of its {rest}", f"name the version of their {rest}"
    return _programs_known(facts, fine, _HOW, "tool_version", "tool_sha256")


@question("Exact argv")
def argv(facts: StudyFacts) -> Answer:
    rest = "the exact command lines of all programs that"
    fine = f"has {rest} it ran", f"have {rest} they ran"
    return _programs_known(facts, fine, "#trials", "argv")


def _loads(facts: StudyFacts) -> list[FamilyFacts]:
    return [family for family in facts.families if not family.loaded.is_empty()]


@question("Load generator not saturated")
def generator(facts: StudyFacts) -> Answer:
    loads = _loads(facts)
    if not loads:
        return does_not_apply("No load generator is at work.")
    found = [(f, *limited) for f in loads if (limited := _limited(f))[0]]
    if found:
        text = ", ".join(
            f"{human.plural(count, 'figure')} of {f.name} {'is' if count == 1 else 'are'} client-limited, first {first}"
            for f, count, first in found
        )
        return Answer("not satisfied", f"{text}.", f"{found[0][0].page}#what-is-weak")
    lacking = [lack for f in loads for lack in in_trials(f, f.loaded, f.told("generator").keys())]
    fine = f"The generator's CPU usage was monitored in each trial of {names(loads)}; no figure is client-limited."
    return unless_lacking(
        lacking,
        fine,
        "The generator's CPU usage is unknown, or too uncertain to judge, in",
        first_page(loads, "#lints"),
    )


def _limited(family: FamilyFacts) -> tuple[int, str]:
    """How many figures are client-limited, and the first: by lints, which know processors, and by the page's note."""
    rules = [rule for rule in family.lints if rule["lint"] == "client-limited" and rule["open"]]
    noted = family.noted("client_limited") or []
    first = next(iter([*(rule["first"] for rule in rules), *noted]), "")
    return sum(rule["open"] for rule in rules) + len(noted), first


@question("Open or closed loop named")
def loop(facts: StudyFacts) -> Answer:
    loads = _loads(facts)
    if not loads:
        return does_not_apply("No load generator is at work.")
    loops = {f.name: sorted(f.loaded["loop"].drop_nulls().unique().to_list()) for f in loads}
    text = "; ".join(f"{name}: {' and '.join(found) or 'not named'}" for name, found in loops.items())
    lacking = [
        lack for f in loads for lack in in_trials(f, f.loaded, set(f.loaded.drop_nulls("loop")["trial"].to_list()))
    ]
    return unless_lacking(lacking, f"Named for each trial: {text}.", f"{text}. It is not named in", first_page(loads))


@question("Failures counted, with Wilson's interval")
def failures(facts: StudyFacts) -> Answer:
    quiet = silent(facts, "failures")
    if quiet or not facts.families:
        return Answer("not satisfied", f"The pages of {names(quiet) or 'the study'} do not count failures.", "#failed")
    noted = [(family, family.noted("failures")) for family in facts.families]
    text = "; ".join(f"{family.name} {f['failed']} of {f['trials']} ({f['interval']})" for family, f in noted)
    lacking = []
    for family, found in noted:
        if found["trials"] != family.results.counted.height:
            return Answer("not satisfied", f"The page of {family.name} does not count all of its trials.", family.page)
        failed = family.results.counted.filter(pl.col("status") != "ok")
        lacking += in_trials(family, failed, set(failed.drop_nulls("cause")["trial"].to_list()))
    return unless_lacking(lacking, f"{text}.", f"{text}. Trials failed without a recorded cause in", "#failed")


@question("Offered and achieved rate")
def offered(facts: StudyFacts) -> Answer:
    is_open = {f.name: f.loaded.filter(pl.col("loop") == "open") for f in facts.families}
    asked = [f for f in facts.families if not is_open[f.name].is_empty()]
    if not asked:
        return does_not_apply("No family offers load at a given rate (open loop).")
    lacking = []
    for family in asked:
        results = family.results
        rates = [metric for metric in results.primary_metrics if results.declared(metric).unit == "1/s"]
        achieved = having(family, rates[:1])
        lacking += in_trials(family, is_open[family.name], family.told("offered").keys() & achieved)
    text = f"{names(asked)}: both rates are shown side by side."
    return unless_lacking(lacking, text, "The offered or the achieved rate is missing in", first_page(asked))


@question("Mix shift")
def mix_shift(facts: StudyFacts) -> Answer:
    mixed = [(family, keys) for family in facts.families if (keys := _mixed(family))]
    if not mixed:
        return does_not_apply("No figure is a mean over kinds of requests whose shares could shift.")
    lacking = []
    for family, keys in mixed:
        told = {tuple(key) for entry in family.noted("mix_shift") or () for key in entry["cases"]}
        lacking += in_cases(family, [key for key in keys if key not in told])
    families = [family for family, _ in mixed]
    text = f"{names(families)}: the contribution of a changed mix of requests is shown separately."
    return unless_lacking(
        lacking, text, "The contribution of a changed mix of requests is not shown separately in", first_page(families)
    )


def _mixed(family: FamilyFacts) -> list[tuple[str, str]]:
    labels = family.results.series("labels")
    return [] if labels is None else list(labels.select("target", "case").unique(maintain_order=True).iter_rows())
