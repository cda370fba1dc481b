"""Questions 1 to 11: what stands behind each number, and how it was measured."""

import json

import polars as pl

from benchstudy.model import registry
from benchstudy.model.family import Family
from benchstudy.report import human
from benchstudy.report.checklist.model import Answer, does_not_apply, question, satisfied_if
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts
from benchstudy.statistics import stats, steady

# What a rate is taken over; below this a server's warm-up, its collector's pauses and a disk's cache decide.
_SHORTEST_WINDOW_S = 10.0


def named(families: list[FamilyFacts]) -> str:
    return ", ".join(family.name for family in families)


def first_page(families: list[FamilyFacts], fragment: str = "") -> str:
    return f"{families[0].page}{fragment}" if families else ""


def _successes(facts: StudyFacts) -> list[int]:
    """The number of successful trials of each case that has a trial."""
    found = []
    for family in facts.families:
        found += [outcomes.count(None) for outcomes in family.results.outcomes.values()]
    return found


@question("Raw samples")
def raw_samples(facts: StudyFacts) -> Answer:
    trials = without = files = 0
    for family in facts.families:
        for listed in family.results.trials["raw_files"].to_list():
            stored = len(json.loads(listed)) if listed else 0
            trials, files, without = trials + 1, files + stored, without + (not stored)
    if not trials:
        return Answer("not satisfied", "There is no trial.")
    text = f"{human.plural(trials, 'trial')} with {files:,} raw files, unaltered: every SHA-256 was compared"
    if without:
        text = f"{without} of {human.plural(trials, 'trial')} have no raw file"
    return satisfied_if(
        not without,
        f"{text}. Every figure leads to its trials, and they to their files.",
        first_page(facts.families, "#trials"),
    )


@question("n in each cell")
def n_in_each_cell(facts: StudyFacts) -> Answer:
    counts = _successes(facts)
    if not counts:
        return Answer("not satisfied", "There is no case with a trial.")
    cases = human.plural(len(counts), "case")
    return Answer(
        "satisfied",
        f"{min(counts)} to {max(counts)} successful trials in {cases}; every cell says how many.",
        "#results",
    )


@question("An interval for each number")
def intervals(facts: StudyFacts) -> Answer:
    counts = _successes(facts)
    least = stats.smallest_n(50)
    few = sum(0 < n < least for n in counts)
    lost = sum(n == 0 for n in counts)
    text = f"{len(counts) - few - lost} of {human.plural(len(counts), 'case')} have a 95 % interval of their median"
    text += f"; {few} have fewer than {least} successful trials, and say so" if few else ""
    text += f"; {lost} have none at all" if lost else ""
    return satisfied_if(bool(counts) and not few, f"{text}.", "#weak")


@question("Median and supported tails")
def tails(facts: StudyFacts) -> Answer:
    noted = [found for family in facts.families if (found := family.noted("tails"))]
    total, few, uncounted = (sum(found[key] for found in noted) for key in ("cells", "few", "uncounted"))
    if not total:
        return Answer("satisfied", "Every cell shows a median. No trial gave a tail percentile.", "#results")
    text = (
        f"Medians everywhere. Of {total} tail percentiles of cases {few} rest on too few operations and are not printed"
    )
    text += f"; of {uncounted} it is not known on how many" if uncounted else ""
    return satisfied_if(not uncounted, f"{text}.", "#results")


@question("Outliers flagged, kept, linked to host events")
def outliers(facts: StudyFacts) -> Answer:
    noted = [(family, found) for family in facts.families if (found := family.noted("outliers"))]
    if len(noted) < len(facts.families) or not noted:
        return Answer("not satisfied", "Not every family's page looks for them.")
    flagged, explained, trials = (sum(f[key] for _, f in noted) for key in ("flagged", "explained", "trials"))
    most = max(noted, key=lambda pair: pair[1]["flagged"])[0]
    text = f"{flagged} of {human.plural(trials, 'trial')} lie far from the others of their case, all kept"
    text += f"; with {explained} of them something was noticed on the host" if flagged else ""
    return Answer("satisfied", f"{text}.", f"{most.page}#what-is-weak")


@question("Random interleaved order, seed shown")
def order(facts: StudyFacts) -> Answer:
    seeds = sorted({str(session["seed"]) for _, session in facts.sessions})
    fixed = []
    for family in facts.families:
        for (target,), trials in family.measured.group_by("target", maintain_order=True):
            orders = [
                tuple(block.sort("started")["case"].to_list())
                for _, block in trials.filter(pl.col("session").is_not_null()).group_by("block", maintain_order=True)
            ]
            whole = [o for o in orders if len(o) == max(map(len, orders))]
            # Of two cases every second block has the same order by chance.
            if len(whole) > 2 and len(whole[0]) > 2 and len(set(whole)) == 1:
                fixed.append(f"{family.name} on {target}")
    if not seeds:
        return Answer("not satisfied", "No session tells its seed: what there is was imported.")
    text = f"Cases in random order within each block; seed {', '.join(seeds)}"
    turns = {family.name: registry.get(family.name).ordering for family in facts.families}
    text += "".join(f"; {name}: {how}" for name, how in turns.items() if how != Family.ordering)
    text += f", but every block of {', '.join(fixed)} has the same order" if fixed else ""
    return satisfied_if(not fixed, f"{text}.", "#sessions")


@question("Warm-up tagged")
def warm_up(facts: StudyFacts) -> Answer:
    loads = [family for family in facts.families if family.has_load]
    if not loads:
        return does_not_apply("No load is put on anything: first operations are what is measured, as a factor.")
    without = [family for family in loads if not _warmed_up(family)]
    text = f"Warm-ups are phases or commands of their own, and count in no figure: {named(loads)}"
    if without:
        text = f"No warm-up is told apart in {named(without)}"
    return satisfied_if(not without, f"{text}.", first_page(without or loads, "#how-this-was-measured"))


def _warmed_up(family: FamilyFacts) -> bool:
    phases = family.results.series("phases")
    if phases is not None and not phases.filter(pl.col("phase").str.contains("(?i)warm|ramp|search")).is_empty():
        return True
    files = family.measured["raw_files"].drop_nulls()
    return bool(files.str.contains('"name": "warm-up/', literal=True).any())


@question("Cache state declared and verified with disk counters")
def cache(facts: StudyFacts) -> Answer:
    reading = [family for family in facts.families if "cache" in family.results.factors]
    if not reading:
        return does_not_apply("No case reads files through a cache that the study controls.")
    text, unproved = [], 0
    for family in reading:
        known = family.results.cases.filter(pl.col("cache").is_in(["cold", "warm", "direct"]))
        measured = (set(family.results.by_case(metric)) for metric in family.results.primary_metrics)
        keys = set(known.select("target", "case").iter_rows()).intersection(*measured)
        for metric in (m for m in registry.get(family.name).metrics.values() if m.tells in ("cache", "storage")):
            unproved += len(keys - set(family.results.by_case(metric.name)))
        levels = ", ".join(family.results.levels("cache"))
        text.append(
            f"{family.name}: the cache is a factor ({levels}), and {len(keys)} cases tell what "
            "the page cache held and what the disk gave"
        )
    lacking = f"; {unproved} proofs are missing" if unproved else ""
    return satisfied_if(not unproved, f"{'; '.join(text)}{lacking}.", first_page(reading, "#cold-against-warm"))


@question("fsync as a factor")
def fsync(facts: StudyFacts) -> Answer:
    writing = [f for f in facts.families if "op" in f.results.factors and "write" in f.results.levels("op")]
    if not writing:
        return does_not_apply("No family measures writes of files one by one.")
    levels = {f.name: f.results.levels("sync") if "sync" in f.results.factors else [] for f in writing}
    text = "; ".join(f"{name}: {', '.join(found) or 'not said'}" for name, found in levels.items())
    synced = all("fsync" in found or "server" in found for found in levels.values())
    return satisfied_if(
        synced, f"What a write waits for is a factor, {text}.", first_page(writing, "#write-operations")
    )


@question("Steady-state test")
def steady_state(facts: StudyFacts) -> Answer:
    noted = [(family, found) for family in facts.families if (found := family.noted("steady"))]
    looked_at, drifting = (sum(found[key] for _, found in noted) for key in ("looked_at", "drifting"))
    if not looked_at:
        return Answer("not satisfied", f"No case has {steady.ROUNDS} blocks to tell from.")
    worst = max(noted, key=lambda pair: pair[1]["drifting"])[0]
    text = f"{looked_at - drifting} of {human.plural(looked_at, 'case')} were steady; the others say that they were not"
    if not drifting:
        text = f"All of {human.plural(looked_at, 'case')} were steady"
    return satisfied_if(not drifting, f"{text}.", f"{worst.page}#what-is-weak")


@question("Enough duration")
def duration(facts: StudyFacts) -> Answer:
    shortest = {}
    for family in facts.families:
        metric = next(iter(family.results.telling("window")), None)
        if metric is not None:
            shortest[family.name] = min(v for trials in family.results.by_case(metric).values() for _, v, _ in trials)
        elif family.has_load:
            lasted = family.measured.filter(pl.col("status") == "ok")["duration_s"].drop_nulls().to_list()
            shortest |= {family.name: min(lasted)} if lasted else {}
    if not shortest:
        return does_not_apply("No rate is taken over a window: each operation is timed as a whole.")
    short = {name: s for name, s in shortest.items() if s < _SHORTEST_WINDOW_S}
    shown = ", ".join(f"{name} {human.quantity(s, 's')}" for name, s in (short or shortest).items())
    limit = f"{_SHORTEST_WINDOW_S:g} s"
    text = (
        f"Rates over less than {limit}: {shown} at the least"
        if short
        else f"No rate is taken over less than {limit}: {shown} at the least"
    )
    return satisfied_if(not short, f"{text}.", "#results")
