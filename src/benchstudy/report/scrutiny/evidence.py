"""The parts of a page that give the evidence: counts, method and weaknesses."""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from benchstudy.measuring.giving_up import GivenUp
from benchstudy.model import registry
from benchstudy.report import human
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed, episodes, many_targets, programs, stopping
from benchstudy.report.scrutiny.many_targets import Indexes
from benchstudy.report.tables.tables import definition_list
from benchstudy.report.texts import as_html, unbroken
from benchstudy.statistics import stats

# A cause may name a port or an id, so each trial may have a different one.
_MOST_CAUSES = 40
_MOST_CASES = 3  # more of them that failed for one cause are counted, and not named
# Of the facts about the method, so many are shown; the rest is folded below this line.
_OPEN, _FOLDED = 1, "Statistics, sessions, order, environment, tools and hashes"
# The load average before a trial still includes the previous trial, which is not a neighbour.
_OWN_LOAD = 1.0


def badges(items: Iterable[tuple[str, str]]) -> str:
    """HTML of small labels. Each item is (kind, text); kind is ok, bad, warn or plain."""
    inner = "".join(f'<li class="{html.escape(kind)}">{html.escape(text)}</li>' for kind, text in items)
    return f'<ul class="badges">{inner}</ul>'


def answers(found: Sequence[Mapping[str, Any]]) -> str:
    """HTML of a page's answers side by side, each `{what, lines: [{name, value, evidence}], note}` of plain text.

    A line with `href` has a link from its value to the trials, or to a table that leads to them.
    """
    cards = []
    for answer in found:
        rows = "".join(
            f'<tr><th scope="row">{html.escape(line["name"])}</th><td>{_linked(line)}</td>'
            f'<td class="evidence">{html.escape(unbroken(line["evidence"]))}</td></tr>'
            for line in answer["lines"]
        )
        note = f"<p>{html.escape(answer['note'])}</p>" if answer["note"] else ""
        cards.append(f"<li><table><caption>{html.escape(answer['what'])}</caption>{rows}</table>{note}</li>")
    return f'<ul class="answers">{"".join(cards)}</ul>'


def _linked(line: Mapping[str, Any]) -> str:
    value = html.escape(line["value"])
    return f'<a href="{html.escape(line["href"])}">{value}</a>' if line.get("href") else value


def count_badges(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Labels that say how many trials ended in which way; outcomes without a trial are left out."""
    found = [("plain", human.plural(counts["trials"], "trial"))]
    kinds = {
        "ok": "ok",
        "failed": "bad",
        "timeout": "bad",
        "aborted": "warn",
        "discarded": "warn",
        "repeated": "warn",
        "disturbed": "bad",
        "imported": "warn",
    }
    words = {"repeated": "set aside and measured again"}
    return found + [(kind, f"{counts[n]:,} {words.get(n, n)}") for n, kind in kinds.items() if counts.get(n)]


def overview(results: Results, indexes: Indexes) -> str:
    """HTML of labels that sum up a page: trials by outcome, busy hosts, mixed versions of the measuring code."""
    items = count_badges(results.counts())
    if results.has_many_targets:
        items.insert(0, ("plain", human.plural(len(results.targets), "target")))
    busy = busy_trials(results, indexes)
    if busy:
        items.append(("warn", f"host busy before {human.plural(len(busy), 'trial')}"))
    if len(instruments(results)) > 1:
        items.append(("warn", f"{len(instruments(results))} instruments mixed"))
    return badges(items)


def instruments(results: Results) -> list[str]:
    """SHA-256 of each version of the measuring code that measured trials that count."""
    measured = results.counted.filter(~pl.col("imported").fill_null(False))
    return measured["instrument"].drop_nulls().unique(maintain_order=True).to_list()


def busy_trials(results: Results, indexes: Indexes) -> list[str]:
    """Trials that began while others used all processors of the host, if their activity was not counted."""
    cores = {index["target"]: _fewest_cores(index) for index in indexes}
    unseen = results.counted.filter(pl.col("disturbed").is_null())
    rows = unseen.select("trial", "target", "load_before").drop_nulls("load_before").iter_rows()
    return [trial for trial, target, load in rows if (own := cores.get(target)) and load > own + _OWN_LOAD]


def _fewest_cores(index: Mapping[str, Any]) -> int | None:
    counts = [sessions.cores(environment.get("before")) for _, environment in sessions.environments(index)]
    return min((c for c in counts if c), default=None)


def method(results: Results, indexes: Indexes) -> str:
    """HTML on how the family was measured, from the records of sessions and trials."""
    counted = results.counted
    facts = [
        ("Design", _design(results)),
        ("Unit of statistics", "The trial: n counts trials, never the operations inside them."),
        (
            "Interval",
            "95 % interval of the median over trials, by order statistics (inverted binomial test). It needs 6 trials "
            "and assumes nothing about the distribution. ± is the sample standard deviation of the trials.",
        ),
    ]
    if results.has_many_targets:
        facts += many_targets.session_facts(indexes)
    else:
        facts += [fact for index in indexes for fact in session_facts(index, several=len(indexes) > 1)]
    facts += [("Other work on the hosts", disturbed.rule(results, indexes))]
    tools = counted.select("tool", "tool_version", "tool_sha256").unique(maintain_order=True).drop_nulls("tool")
    lines = [_tool(*row) for row in tools.iter_rows()]
    files = programs.files(results.of_trials.counted)
    lines += [f"{path}, SHA-256 {sha256}" for sha256, path in files.items() if sha256 not in tools["tool_sha256"]]
    if lines:
        facts.append(("Tools on the host", "\n".join(many_targets.cut(lines))))
    facts += [("Instrument (SHA-256 of the measuring code)", "\n".join(instruments(results)))]
    hashes = counted["study_sha256"].drop_nulls().unique(maintain_order=True).to_list()
    facts += [("Study as declared (SHA-256)", "\n".join(hashes))]
    told = [(name, text) for name, text in facts if text]
    rest = f"<summary>{_FOLDED}</summary>{definition_list(told[_OPEN:])}"
    return f'{definition_list(told[:_OPEN])}<details class="fold">{rest}</details>'


def _design(results: Results) -> str:
    """The design of what was measured here, and what is unknown about imported trials."""
    imported = pl.col("imported").fill_null(False)
    measured, others = results.counted.filter(~imported), results.counted.filter(imported)
    found = []
    if measured.height or others.is_empty():
        of_case = measured.group_by("target", "case").agg(pl.col("block").n_unique())["block"].to_list()
        fewest = f"{min(of_case)} to " if len(set(of_case)) > 1 else ""
        cases = results.cases.height - len(results.imported)
        often = f"{'each ' if cases > 1 else ''}once per block, in "
        often += fewest + human.plural(max(of_case, default=0), "block")
        turns = registry.get(results.family).ordering
        on = f" on {human.plural(len(results.targets), 'target')}" if results.has_many_targets else ""
        found.append(f"{human.plural(cases, 'case')}{on}, {often}, {turns}; one trial at a time on a host.")
    if others.height:
        found.append(
            f"{human.plural(others.height, 'trial')} of {human.plural(len(results.imported), 'case')} imported. Their "
            "time, their order and other load on the host are unknown, unless their outputs give them."
        )
    return "\n".join(found)


def _tool(name: str, version: str | None, sha256: str | None) -> str:
    named = human.tool(name, version)
    return f"{named}, SHA-256 {sha256}" if sha256 else named


def session_facts(index: Mapping[str, Any], *, several: bool) -> list[tuple[str, str]]:
    """What the sessions on one target recorded, as pairs (name, text). `several`: names include the target."""
    where = f" on {index['target']}" if several else ""
    lines, changes = [], []
    for session in index["sessions"]:
        lines.append(
            f"{sessions.moment(session['started'])} to {sessions.moment(session['finished'])}, "
            f"order seed {session['seed']}"
        )
        for name, environment in session["hosts"].items():
            changes += [f"{name}: {change}" for change in environment.get("diff") or ()]
    facts = [(f"Sessions{where}", "\n".join(lines)), *stopping.facts(index, where)]
    if lines:
        facts.append((f"Environment, before against after{where}", "\n".join(changes) or "no change noticed"))
    events = [event for session in index["sessions"] for event in session["events"]]
    given = [str(GivenUp(**case)) for case in index.get("given_up", ())]
    facts += [(f"Given up{where}", "\n".join(given))] if given else []
    return [*facts, (f"Events{where}", "\n".join(events[:20]))]


def weak_points(results: Results, indexes: Indexes) -> list[str]:
    """The weaknesses of the figures that follow from the numbers of trials and their records."""
    return [
        *many_targets.cut(list(programs.weaknesses(results))),
        *many_targets.cut(list(programs.changed_hosts(results, indexes))),
        *_weak_numbers(results),
        *_never_given(results),
        *episodes.weaknesses(results),
        *many_targets.cut(list(stopping.weaknesses(results, indexes))),
        *_weak_trials(results, indexes),
    ]


def weakness_list(found: Iterable[str]) -> str:
    """Sentences that come from data, as an HTML list."""
    items = "".join(f"<li>{as_html(text)}</li>" for text in found)
    return f'<ul class="weak">{items}</ul>' if items else "<p>The data show no weakness.</p>"


def _weak_numbers(results: Results) -> list[str]:
    successes = results.counted.filter(pl.col("status") == "ok").group_by("target", "case").len()
    per_case = results.cases.join(successes, on=["target", "case"], how="left").with_columns(pl.col("len").fill_null(0))
    small = per_case.filter(pl.col("len") < stats.smallest_n(50)).height
    said = (
        f"{small} of {human.plural(results.cases.height, 'case')} {'has' if small == 1 else 'have'} fewer than "
        f"{stats.smallest_n(50)} successful trials, which are too few for a 95 % interval of the median."
    )
    return [said] if small else []


def _never_given(results: Results) -> list[str]:
    """In families that ship, it depends on the cases which primary metrics there are, such as reading or writing."""
    if results.family not in registry.brought() or not results.metrics:
        return []
    declared = registry.get(results.family).metrics
    missing = [name for name, metric in declared.items() if metric.primary and name not in results.metrics]
    said = f"No trial gave {human.listed(missing, _MOST_CASES)}, which the family declares as primary."
    return [said] if missing else []


def _weak_trials(results: Results, indexes: Indexes) -> list[str]:
    counts = results.counts()
    failed = results.counted.filter(pl.col("status") != "ok")
    found = []
    cases: dict[str, Counter[str]] = {}
    names: dict[str, str] = {}
    for target, case, cause in failed.select("target", "case", "cause").iter_rows():
        names[case] = results.case_name(target, case, but=("target",))
        # The sentence ends with its own full stop; that of an output's last line would be a second one.
        cases.setdefault((cause or "no cause recorded").rstrip("."), Counter())[case] += 1
    by_cause = sorted(cases.items(), key=lambda item: -item[1].total())
    for cause, of_case in by_cause[:_MOST_CAUSES]:
        if len(of_case) > _MOST_CASES:
            total = results.counted.filter(pl.col("case").is_in(list(of_case))).height
            trials = f"{of_case.total():,} of {human.plural(total, 'trial')} of {len(of_case)} cases"
            found.append(f"{trials} failed: {cause}. The list of trials has them.")
            continue
        for case, k in of_case.most_common():
            total = results.counted.filter(pl.col("case") == case).height
            found.append(f"{names[case]}: {k} of {human.plural(total, 'trial')} failed: {cause}.")
    if more := sum(of_case.total() for _, of_case in by_cause[_MOST_CAUSES:]):
        found.append(f"{human.plural(more, 'more trial')} failed for other causes, which the list of trials gives.")
    if len(instruments(results)) > 1:
        found.append(
            f"The trials were measured by {len(instruments(results))} versions of the measuring code, so a difference "
            "between cases may come from the instrument."
        )
    if results.counted["study_sha256"].n_unique() > 1:
        found.append(
            "The study was edited between trials; those measured before the edit are shown as they are (post hoc)."
        )
    if counts["imported"]:
        found.append(
            f"{human.plural(counts['imported'], 'trial')} imported from existing output. How that output was made is "
            "unknown."
        )
    untold = {key: factors for key, factors in results.untold.items() if key in results.imported}
    if untold:
        several = results.counted.group_by("target", "case").len().filter(pl.col("len") > 1)
        pooled = sum(key in untold for key in several.select("target", "case").iter_rows())
        found.append(
            f"{human.plural(len(untold), 'imported case')} with unknown levels "
            f"({', '.join(dict.fromkeys(f for factors in untold.values() for f in factors))}). {pooled} of them have "
            "several trials, which may differ in these."
        )
    for why, k in Counter(results.trials["discarded_why"].drop_nulls().to_list()).most_common():
        found.append(f"{human.plural(k, 'trial')} discarded by hand: {why}.")
    if counts["aborted"]:
        found.append(f"{human.plural(counts['aborted'], 'trial')} aborted (connection, controller or host was lost).")
    busy = busy_trials(results, indexes)
    if busy:
        found.append(
            f"The host was busy before {len(busy)} of {human.plural(results.counted.height, 'trial')}: its load "
            "average was higher than its processors and the previous trial explain."
        )
    return found
