"""Questions 1 to 11: the evidence for each number, and how it was measured.

docs/reports.md says what each question asks.
"""

from collections import Counter
from itertools import groupby

import polars as pl

from benchstudy.model import registry
from benchstudy.model.criteria import CACHED, NOT_CACHED
from benchstudy.model.family import Family
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.checklist.lacking import Lack, in_cases, in_trials, unless_lacking
from benchstudy.report.checklist.model import Answer, does_not_apply, question
from benchstudy.report.results.results import raw_files
from benchstudy.report.scrutiny import drift
from benchstudy.report.scrutiny.drift import Key
from benchstudy.report.study.studyfacts import FamilyFacts, StudyFacts
from benchstudy.statistics import stats, steady

# The shortest window of a rate. Below it, warm-up, garbage collection and a disk's cache dominate.
_SHORTEST_WINDOW_S = 10.0
# An order or a position that is less likely than this by chance was not random.
_CHANCE = 0.001
_HOW = "#how-this-was-measured"


def names(families: list[FamilyFacts]) -> str:
    """The names of families, separated by commas."""
    return ", ".join(family.name for family in families)


def first_page(families: list[FamilyFacts], fragment: str = "") -> str:
    """The link to the first family's page, or to a `fragment` of it; empty without a family."""
    return f"{families[0].page}{fragment}" if families else ""


def silent(facts: StudyFacts, kind: str) -> list[FamilyFacts]:
    """Families whose page noted nothing of this kind in `overview.json`."""
    return [family for family in facts.families if family.noted(kind) is None]


def _have(number: int, total: int = 0) -> str:
    return human.verb(number, total, "has", "have")


@question("Raw samples")
def raw_samples(facts: StudyFacts) -> Answer:
    lacking, trials, files = [], 0, 0
    for family in facts.families:
        number = pl.col("raw_files").fill_null("").str.count_matches('"name":', literal=True)
        stored = dict(family.results.trials.select("trial", number).iter_rows())
        trials, files = trials + len(stored), files + sum(stored.values())
        lacking += in_trials(family, family.results.trials, {trial for trial, count in stored.items() if count})
    if not trials:
        return Answer("not satisfied", "There is no trial.")
    text = (
        f"{human.plural(trials, 'trial')} with {human.plural(files, 'raw file')}, unaltered: every SHA-256 was compared"
    )
    text = f"{text}. Every figure links to its trials, and each trial to its files."
    page = first_page(facts.families, "#trials")
    return unless_lacking(lacking, text, "There are trials without any raw file in", page, "#trials")


@question("n in each cell")
def n_in_each_cell(facts: StudyFacts) -> Answer:
    # The number of successful trials of each case that has a trial.
    counts = [found.count(None) for family in facts.families for found in family.results.outcomes.values()]
    if not counts:
        return Answer("not satisfied", "There is no case with a trial.")
    lacking = []
    for family in facts.families:
        declared = family.results.cases.select("target", "case").iter_rows()
        lacking += in_cases(family, [key for key in declared if key not in family.results.outcomes])
    least = "" if min(counts) == max(counts) else f"{min(counts)} to "
    trials = f"{least}{human.plural(max(counts), 'successful trial')}{' each' if len(counts) > 1 else ''}"
    text = f"{human.plural(len(counts), 'case')} with {trials}; every cell shows n."
    return unless_lacking(lacking, text, "There is no trial of", "#results")


@question("An interval for each number")
def intervals(facts: StudyFacts) -> Answer:
    least, few, cases, lost = stats.smallest_n(50), [], 0, 0
    for family in facts.families:
        declared = registry.get(family.name)
        counted: dict[tuple[str, str], dict[str, int]] = {}
        for target, case, metric, n in family.results.usable.group_by("target", "case", "metric").len().iter_rows():
            counted.setdefault((target, case), {})[metric] = n
        for key, outcomes in family.results.outcomes.items():
            counts = counted.get(key, {})
            asked = [counts[metric] for metric in declared.measured_for(counts)]
            succeeded = outcomes.count(None)
            cases, lost = cases + 1, lost + (not succeeded)
            n = min(asked, default=0)
            if succeeded and n < least:
                few.append(Lack(family, key, what=f"n = {n}"))
    with_interval = cases - len(few) - lost
    text = (
        f"{with_interval} of {human.plural(cases, 'case')} {_have(with_interval, cases)} a 95 % interval of the median"
    )
    text += f"; {lost} gave no figure" if lost else ""
    text += f"; {len(few)} {_have(len(few))} fewer than {least} successful trials, and the page says so" if few else ""
    if not cases:
        return Answer("not satisfied", "There is no case with a trial.")
    return unless_lacking(few, f"{text}.", text, "#weak", "#what-is-weak")


@question("Median and supported tails")
def tails(facts: StudyFacts) -> Answer:
    if quiet := silent(facts, "tails"):
        return Answer("not satisfied", f"The pages of {names(quiet)} do not count the operations behind tails.")
    noted = [(family, family.noted("tails")) for family in facts.families]
    total, few = (sum(found[key] for _, found in noted) for key in ("cells", "few"))
    if not total:
        return Answer("satisfied", "Every cell shows a median. No trial gave a tail percentile.", "#results")
    lacking = [lack for family, found in noted for lack in in_cases(family, map(tuple, found["cases"]))]
    tails = human.plural(total, "tail percentile")
    text = f"Every cell shows a median. Of {tails}, {few} have too few operations to be printed"
    problem = f"{text}. The number of operations is unknown for"
    return unless_lacking(lacking, f"{text}.", problem, "#results")


@question("Outliers flagged, kept, linked to host events")
def outliers(facts: StudyFacts) -> Answer:
    if not facts.families or silent(facts, "outliers"):
        return Answer(
            "not satisfied", f"The pages of {names(silent(facts, 'outliers')) or 'the study'} do not look for outliers."
        )
    noted = [(family, family.noted("outliers")) for family in facts.families]
    flagged, explained, trials = (sum(f[key] for _, f in noted) for key in ("flagged", "explained", "trials"))
    most = max(noted, key=lambda pair: pair[1]["flagged"])[0]
    are = human.verb(flagged, trials, "is an outlier within its case", "are outliers within their case")
    text = f"{flagged} of {human.plural(trials, 'trial')} {are}; all are kept"
    text += f"; for {explained} of them the host recorded an event" if flagged else ""
    unseen = [lack for family, found in noted for lack in in_cases(family, map(tuple, found["unseen"]))]
    return unless_lacking(
        unseen, f"{text}.", f"{text}. Too few trials to tell in", f"{most.page}#what-is-weak", "#what-is-weak"
    )


@question("Random interleaved order, seed shown")
def order(facts: StudyFacts) -> Answer:
    known = {session["uuid"]: str(session["seed"]) for _, session in facts.sessions if "seed" in session}
    lacking, fixed = [], []
    for family in facts.families:
        seen = [t for t, session in family.succeeded.select("trial", "session").iter_rows() if session in known]
        lacking += in_trials(family, family.succeeded, set(seen), "without a recorded seed")
        places = family.measured.filter(pl.col("session").is_in(list(known)))
        for _, trials in places.group_by("target", "session", maintain_order=True):
            in_time = list(trials.sort("started", "position").select("target", "case", "block").iter_rows())
            lacking += in_cases(family, _alone(in_time), "not interleaved with others")
            if registry.get(family.name).ordering == Family.ordering:
                lacking += in_cases(family, _same_place(in_time), "at the same place in every block")
                fixed += [f"{family.name} on {in_time[0][0]}"] if _same_order(in_time) else []
    if not known:
        return Answer("not satisfied", "No session records a seed: all results were imported.")
    text = f"Cases in random order within each block; seed {', '.join(sorted(set(known.values())))}"
    turns = {family.name: registry.get(family.name).ordering for family in facts.families}
    text += "".join(f"; {name}: {how}" for name, how in turns.items() if how != Family.ordering)
    if fixed:
        return Answer(
            "not satisfied", f"{text}, but every block of {', '.join(fixed)} has the same order.", "#sessions"
        )
    return unless_lacking(lacking, f"{text}.", f"{text}. This is not so for", "#sessions")


def _blocks(in_time: list[tuple[str, str, int]]) -> list[list[Key]]:
    """The order of the cases in each complete block: one that has as many trials as the largest."""
    blocks = grouped((block, (target, case)) for target, case, block in in_time)
    most = max(map(len, blocks.values()), default=0)
    return [found for found in blocks.values() if len(found) == most]


def _same_order(in_time: list[tuple[str, str, int]]) -> bool:
    blocks = _blocks(in_time)
    # With two cases, every second block has the same order by chance.
    return len(blocks) > 2 and len(blocks[0]) > 2 and all(block == blocks[0] for block in blocks)


def _same_place(in_time: list[tuple[str, str, int]]) -> list[Key]:
    """Cases at the same position in every block, if chance would rarely put any of them there."""
    blocks = _blocks(in_time)
    if len(blocks) < 2 or len(blocks[0]) ** (2 - len(blocks)) > _CHANCE or _same_order(in_time):
        return []
    return [key for place, key in enumerate(blocks[0]) if all(block[place] == key for block in blocks)]


def _alone(in_time: list[tuple[str, str, int]]) -> list[Key]:
    """Cases whose trials were measured consecutively, although the same session measured other cases."""
    runs = Counter(key for key, _ in groupby((target, case) for target, case, _ in in_time))
    trials = Counter((target, case) for target, case, _ in in_time)
    return [key for key, count in runs.items() if len(runs) > 1 and count == 1 and trials[key] > 2]


@question("Warm-up tagged")
def warm_up(facts: StudyFacts) -> Answer:
    loads = [family for family in facts.families if not family.loaded.is_empty()]
    if not loads:
        return does_not_apply("No family generates load. First operations are measured on purpose, as a factor.")
    lacking = [lack for family in loads for lack in in_trials(family, family.loaded, _warmed_up(family))]
    text = f"{names(loads)}: warm-ups are separate phases or commands, and no figure includes them."
    return unless_lacking(lacking, text, "There is no separate warm-up in", first_page(loads, _HOW), _HOW)


def _warmed_up(family: FamilyFacts) -> set[str]:
    declared, phases = registry.get(family.name), _phases(family)
    found = set()
    for row in family.loaded.select("trial", "argv", "raw_files").iter_rows(named=True):
        files = [file["name"] for file in raw_files(row)]
        if declared.warmed_up(row["argv"] or "", files, [name for name, _ in phases.get(row["trial"], ())]):
            found.add(row["trial"])
    return found


def _phases(family: FamilyFacts) -> dict[str, list[tuple[str, float]]]:
    """The phases of each trial, as pairs (name, duration in seconds)."""
    rows = family.results.series("phases")
    if rows is None:
        return {}
    told = rows.select("trial", "phase", "start_s", "end_s").iter_rows()
    return grouped((trial, (phase, end - start)) for trial, phase, start, end in told)


@question("Cache state declared and verified with disk counters")
def cache(facts: StudyFacts) -> Answer:
    reading = [
        (f, factor) for f in facts.families if (factor := registry.get(f.name).cache_factor) in f.results.factors
    ]
    if not reading:
        return does_not_apply("No case reads files through a cache that the study controls.")
    text, lacking = [], []
    for family, factor in reading:
        cases = family.results.cases.filter(pl.col(factor).is_in(["cold", "warm", "direct"]))
        asked = family.succeeded.join(cases.select("target", "case", factor), on=["target", "case"])
        held, given = family.told("cache"), family.told("storage")
        claims = asked.select("trial", factor).iter_rows()
        proved = {trial for trial, claim in claims if _is_proved(claim, held.get(trial), given.get(trial))}
        lacking += in_trials(family, asked, proved)
        levels = ", ".join(family.results.levels(factor))
        what = "cases record what the page cache held and what the disk delivered"
        text.append(f"{family.name}: the cache is a factor ({levels}), and {cases.height} {what}")
    said = "; ".join(text)
    problem = f"{said}. The claimed cache state is not verified in"
    return unless_lacking(lacking, f"{said}.", problem, first_page([f for f, _ in reading], "#cold-against-warm"))


def _is_proved(claim: str, held: float | None, given: float | None) -> bool:
    """Whether counters confirm the claim: `held` is the share in the page cache, `given` the bytes from storage.

    Cold: nothing was in the cache, and storage delivered bytes. Warm: everything was in the cache. Direct: storage
    delivered bytes.
    """
    if claim == "warm":
        return held is not None and held >= CACHED
    return bool(given) and (claim == "direct" or (held is not None and held <= NOT_CACHED))


@question("fsync as a factor")
def fsync(facts: StudyFacts) -> Answer:
    writing = [(f, factor) for f in facts.families if (factor := registry.get(f.name).sync_factor) in f.results.factors]
    if not writing:
        return does_not_apply("No family has a factor for what a write waits for.")
    lacking, levels = [], []
    for family, factor in writing:
        others = ["target", *(name for name in family.results.factors if name != factor)]
        writes = family.results.cases.filter(pl.col(factor).is_not_null())
        durable = writes.filter(pl.col(factor) != "none").select(others)
        without = writes.join(durable, on=others, how="anti", nulls_equal=True)
        lacking += in_cases(family, without.select("target", "case").iter_rows())
        levels.append(f"{family.name}: {', '.join(family.results.levels(factor)) or 'not said'}")
    text = f"What a write waits for is a factor: {'; '.join(levels)}"
    href = first_page([family for family, _ in writing], "#write-operations")
    return unless_lacking(lacking, f"{text}.", f"{text}. No write waits for the storage in", href)


@question("Steady-state test")
def steady_state(facts: StudyFacts) -> Answer:
    noted = [(family, found) for family in facts.families if (found := family.noted("steady"))]
    looked_at = sum(found["looked_at"] for _, found in noted)
    if not looked_at:
        return Answer("not satisfied", f"No case has the {steady.ROUNDS} blocks that the test needs.")
    drifting = [lack for f, found in noted for lack in in_cases(f, map(tuple, found["cases"]), "not steady")]
    unseen = [
        lack
        for f, found in noted
        for lack in in_cases(f, map(tuple, found["unseen"]), f"fewer than {steady.ROUNDS} blocks")
    ]
    limits = sum(found["looked_at"] for _, found in noted if found["rule"] == drift.STORAGE_RULE)
    text = _passed(limits, looked_at - limits)
    problem = f"{looked_at - len(drifting)} of {human.plural(looked_at + len(unseen), 'case')} passed. The others are"
    if quiet := silent(facts, "steady"):
        return Answer("not satisfied", f"The pages of {names(quiet)} do not test for a steady state.")
    page = first_page(facts.families, "#what-is-weak")
    return unless_lacking([*drifting, *unseen], text, problem, page, "#what-is-weak")


def _passed(limits: int, trend: int) -> str:
    """What the test shows if all cases pass: `limits` by SNIA's limits, `trend` by the absence of a trend."""
    said = []
    if limits:
        said.append(f"{'The only case is' if limits == 1 else f'All {limits:,} cases are'} within SNIA's limits.")
    if trend:
        where = "the only case" if trend == 1 else f"any of {trend:,} cases"
        said.append(f"No trend over the blocks is shown in {where}{' of other families' if limits else ''}.")
    return " ".join(said)


@question("Enough duration")
def duration(facts: StudyFacts) -> Answer:
    short, shortest = [], dict[str, float]()
    for family in facts.families:
        windows = _windows(family)
        if not windows and family.loaded.is_empty():
            continue
        asked = family.succeeded.filter(pl.col("trial").is_in(list({*windows, *family.loaded["trial"].to_list()})))
        enough = {trial for trial, lasted in windows.items() if lasted >= _SHORTEST_WINDOW_S}
        short += in_trials(family, asked, enough)
        shortest |= {family.name: min(windows.values())} if windows else {}
    if not shortest and not short:
        return does_not_apply("No rate is measured over a window: each operation is timed as a whole.")
    shown = ", ".join(f"{name} {human.quantity(s, 's')}" for name, s in shortest.items()) or "not known"
    limit = f"{_SHORTEST_WINDOW_S:g} s"
    text = f"No rate is measured over less than {limit}. The shortest windows: {shown}."
    problem = f"Rates are measured over less than {limit} (shortest of each family: {shown}) in"
    return unless_lacking(short, text, problem, "#results")


def _windows(family: FamilyFacts) -> dict[str, float]:
    """The window of each trial's rates in seconds: as the trial says, or else its longest phase that counts."""
    said = family.told("window", least=True)
    for trial, phases in _phases(family).items():
        lasted = [seconds for name, seconds in phases if not Family.is_before(name)]
        if trial not in said and lasted:
            said[trial] = max(lasted)
    return said
