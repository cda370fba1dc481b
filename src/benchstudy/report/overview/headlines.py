"""One sentence per family about what its page found: the number, its interval, the number of trials, the verdict.

docs/reports.md states the rule. Only comparisons by metrics that cases are measured for are considered. Of those with
the verdict better or worse, the one with the largest effect relative to its smallest detectable effect is chosen. If
there is none, it is the best supported equivalence, and then the inconclusive comparison with the narrowest interval.
If no comparison has an interval, it is the page's first answer. One sentence about an extreme can mislead, so the range
of all ratios and their verdicts follow, by what is compared with what.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits.exhibitfiles import ANSWER
from benchstudy.report.study.studyfacts import FamilyFacts
from benchstudy.report.tables.tables import anchor
from benchstudy.statistics.comparisons import Refusal, Verdict

_RATES = ("1/s", "B/s")
_MOST_ANSWERS = 2  # side by side, if nothing has a verdict
_LONG_EVIDENCE = 100  # characters; an answer with longer evidence stands beside no other
_NO_FIGURE = "–"
_MOST_PAIRS = 4
_AS_PERCENT = 0.1  # a smaller ratio is told in per cent


@dataclass(frozen=True)
class Headline:
    """A sentence in parts: `before`, the `number` that matters, `after`, and the `verdict`, which may be empty.

    `kind` is the verdict as a value. `detail` has both absolute figures and counts the family's other verdicts.
    `pairs` has a line for each pair of levels that several comparisons are about. `href` leads to the source.
    """

    family: str
    title: str
    before: str
    number: str
    after: str
    verdict: str
    kind: str
    detail: str
    href: str
    pairs: Sequence[str] = ()


def headline(family: FamilyFacts) -> Headline:
    """The headline of a family, chosen by the rule of this module."""
    compared = [(name, found) for name, _, found in compared_on(family)]
    judged = [(name, f) for name, aside, f in compared_on(family) if not aside]
    others = [verdict for noted in family.notes.get("findings", {}).values() for verdict in noted.get("others", ())]
    counted = _counted([*(f["verdict"] for _, f in compared), *others])
    withheld = sum(f["refusal"] == Refusal.DISTURBED for _, f in compared)
    if withheld:
        counted += f" {withheld} {'is' if withheld == 1 else 'are'} withheld, because others used the host meanwhile."
    for wanted, how_telling in _CHOICE:
        of_kind = [(name, f) for name, f in judged if f["verdict"] in wanted and f["low"] is not None]
        if of_kind:
            name, most_telling = max(of_kind, key=lambda one: how_telling(one[1]))
            made = _compared(family, name, most_telling, counted)
            return made if others else replace(made, pairs=_pairs([f for _, f in judged], most_telling))
    return _absolute(family, counted)


def _pairs(judged: Iterable[Mapping[str, Any]], told: Mapping[str, Any]) -> list[str]:
    """A line for each pair of levels, those with most verdicts first: its least and largest ratio, and its verdicts.

    A pair about which only the comparison `told` is known has no line.
    """
    of_pair = grouped(((f["level"], f["against"], f["basis"], human.noun(f["title"])), f) for f in judged)
    known = {pair: [one for one in found if _is_known(one)] for pair, found in of_pair.items()}
    shown = sorted((pair for pair, found in known.items() if found not in ([], [told])), key=lambda p: -len(known[p]))
    metrics = {metric for *_, metric in of_pair}
    lines = []
    for pair in shown[:_MOST_PAIRS]:
        level, against, basis, metric = pair
        ratios = sorted(found["ratio"] for found in known[pair])
        between = " to ".join(dict.fromkeys(human.times(ratio) for ratio in (ratios[0], ratios[-1])))
        about = ", ".join([f"{level} against {against}", *filter(None, [basis, metric if len(metrics) > 1 else ""])])
        lines.append(f"{about}: {between}; {_tally(found['verdict'] for found in of_pair[pair])}.")
    more = len(shown) - len(lines)
    return [*lines, f"{human.plural(more, 'more pair')} on its page."] if more else lines


def _is_known(found: Mapping[str, Any]) -> bool:
    return found["ratio"] is not None and Verdict(found["verdict"]) is not Verdict.NONE


def _strength(found: Mapping[str, Any]) -> float:
    return found["strength"] or 0.0


def _precision(found: Mapping[str, Any]) -> float:
    return -math.log(found["high"] / found["low"])


# The verdicts in the order in which they are looked for, each with what makes one of its comparisons more telling.
_CHOICE: Sequence[tuple[Sequence[Verdict], Callable[[Mapping[str, Any]], float]]] = (
    ((Verdict.BETTER, Verdict.WORSE), _strength),
    ((Verdict.EQUIVALENT,), _strength),
    ((Verdict.INCONCLUSIVE,), _precision),
)


def compared_on(family: FamilyFacts) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    """Yield (table, whether it is an aside, finding) for each comparison that a family's page noted."""
    for name, noted in family.notes.get("findings", {}).items():
        for found in noted["found"]:
            yield name, noted["aside"], found


def _compared(family: FamilyFacts, name: str, found: Mapping[str, Any], counted: str) -> Headline:
    made = Verdict(found["verdict"])
    level, against = found["level"], found["against"]
    number, interval = human.ratio(found["ratio"], found["low"], found["high"])
    of = ""
    if found["ratio"] < _AS_PERCENT:
        number, interval = human.estimate(found["ratio"], found["low"], found["high"], "%")
        of = " of"
    evidence = f"({human.noun(found['title'])}; {interval}, {numbers(found)})"
    basis = f" {found['basis']}" if found["basis"] else ""
    where = f"{basis} {found['where']}" if found["where"] else basis
    where += f" on {found['target']}" if len(family.shown.targets) > 1 else ""
    if made is Verdict.EQUIVALENT:
        before, after = f"{level} and {against} are equal within {human.percent(found['margin'])}{where}: ", ""
    elif found["unit"] == "s":
        before, after = f"{level} takes ", f"{' of the time of' if of else ' as long as'} {against}{where}"
    elif found["unit"] in _RATES:
        before, after = f"{level} reaches ", f"{of} the rate of {against}{where}"
    else:
        before, after = f"{level} has ", f"{of} the {human.noun(found['title'])} of {against}{where}"
    figures = [human.quantity(found[side], found["unit"]) for side in ("median", "base_median")]
    detail = f"Medians{basis}: {figures[0]} against {figures[1]}. {counted}"
    table = name if name in family.notes.get("comparisons", {}) else ""
    href = f"{family.page}#{anchor('table', table)}" if table else family.page
    factors = {factor.replace("_", " ") for factor in family.shown.factors}
    if before.startswith(("a ", "an ")) or level.rpartition(" ")[0] in factors:  # names keep their case
        before = before[0].upper() + before[1:]
    after = f"{after} {evidence}"
    return Headline(family.name, family.title, before, number, after, made.told, made.value, detail, href)


def _absolute(family: FamilyFacts, counted: str) -> Headline:
    """The page's first answers in its own words: figure, n, interval."""
    path = family.exports / ANSWER
    answers = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    known = [(answer["what"], line) for answer in answers for line in answer["lines"] if line["value"] != _NO_FIGURE]
    firsts = list({what: (what, line) for what, line in reversed(known)}.values())[::-1][:_MOST_ANSWERS]
    said = [(f"{what}, {line['name']}: ", line["value"], f" ({line['evidence']})") for what, line in firsts]
    before, number, after = said[0] if said else ("Its page gives no answer", "", "")
    if len(after) < _LONG_EVIDENCE:
        after += "".join(f"; {human.noun(b)}{n}{a}" for b, n, a in said[1:] if len(a) < _LONG_EVIDENCE)
    return Headline(family.name, family.title, before, number, after, "", Verdict.NONE.value, counted, family.page)


def numbers(found: Mapping[str, Any]) -> str:
    """The number of trials behind a finding: "n = 6", "n = 6 against 5"."""
    return f"n = {found['n']}" + (f" against {found['base_n']}" if found["base_n"] != found["n"] else "")


def _counted(verdicts: Sequence[str]) -> str:
    """ "30 comparisons by primary metrics: 3 better, 12 worse and 15 inconclusive."."""
    if not verdicts:
        return "Nothing was compared."
    made = f"{human.plural(len(verdicts), 'comparison')} by primary metrics"  # pages compare by others, too
    return f"None of {made} has a verdict." if set(verdicts) == {Verdict.NONE} else f"{made}: {_tally(verdicts)}."


def _tally(verdicts: Iterable[str]) -> str:
    counts = Counter(Verdict(verdict) for verdict in verdicts)
    return _listed([f"{counts[verdict]} {verdict.counted}" for verdict in Verdict if counts[verdict]])


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
