"""One sentence per family about what its page found: the number, its interval, the number of trials, the verdict.

docs/reports.md states the rule. Only comparisons by metrics that cases are measured for are considered. Of those with
the verdict better or worse, the one with the largest effect relative to its smallest detectable effect is chosen. If
there is none, it is the best supported equivalence, and then the inconclusive comparison with the narrowest interval.
If no comparison has an interval, it is the page's first answer. One sentence about an extreme can mislead, so the
lowest and the highest ratio and all verdicts follow, by what is compared with what.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.exhibits import cells
from benchstudy.report.study.studyfacts import FamilyFacts
from benchstudy.report.tables.tables import anchor
from benchstudy.statistics.comparisons import Refusal, Verdict

_RATES = ("1/s", "B/s")
_MOST_FIRSTS = 2  # answers side by side, if nothing has a verdict
_LONG_EVIDENCE = 100  # characters; an answer with longer evidence stands beside no other
_LONGEST_WHY = 240  # characters
_NO_FIGURE = "–"
_OTHERS = "withheld because of disturbed trials, which the page's table names"
_MOST_PAIRS = 4
_AS_PERCENT = 0.1  # a smaller ratio is told in per cent


@dataclass(frozen=True)
class Pair:
    """All comparisons about one pair of levels by one metric, as text.

    `lowest` and `highest` are a ratio, its evidence and the link to its trials; the highest is empty if only one ratio
    is known.
    """

    compared: str
    lowest: tuple[str, str, str]
    highest: tuple[str, str, str]
    verdicts: str


@dataclass(frozen=True)
class Headline:
    """A sentence in parts: `before`, the `number` that matters, `after`, and the `verdict`, which may be empty.

    `kind` is the verdict as a value. `medians` are those of both sides, each with the link to its trials, and `basis`
    says what they are of. `detail` has the margin, warnings, and the number of each verdict. `ratios` tell of all
    comparisons, pair by pair, and `more_ratios` is the number of pairs left out. `href` leads to the source.
    """

    family: str
    title: str
    before: str
    number: str
    after: str
    verdict: str
    kind: str
    basis: str
    medians: Sequence[tuple[str, str]]
    detail: str
    href: str
    ratios: Sequence[Pair] = ()
    more_ratios: int = 0


def headline(family: FamilyFacts) -> Headline:
    """The headline of a family, chosen by the rule of this module."""
    compared = list(compared_on(family))
    judged = [(name, found) for name, aside, found in compared if not aside]
    counted = _counted(family)
    withheld = sum(found["refusal"] == Refusal.DISTURBED for *_, found in compared)
    if withheld:
        counted += f" {withheld} {'is' if withheld == 1 else 'are'} withheld, because other work disturbed trials."
    for wanted, (several, single), how_telling in _CHOICE:
        of_kind = [(name, f) for name, f in judged if f["verdict"] in wanted and None not in (f["low"], f["high"])]
        if of_kind:
            name, most_telling = max(of_kind, key=lambda one: how_telling(one[1]))
            chosen = f"Chosen as {several if len(of_kind) > 1 else single} of {counted}" if len(judged) > 1 else counted
            return _with_ratios(family, _compared(family, name, most_telling, chosen), [f for _, f in judged])
    return _with_ratios(family, _absolute(family, counted), [f for _, f in judged])


def _with_ratios(family: FamilyFacts, made: Headline, judged: Sequence[Mapping[str, Any]]) -> Headline:
    """The headline with a line for each pair of levels, those with most verdicts first.

    It has no lines if there is only one comparison, which it has told, nor if the page noted only some of them.
    """
    if len(judged) < 2 or any(calls.get("others") for calls in family.notes.get("findings", {}).values()):
        return made
    of_pair = grouped(((f["level"], f["against"], f["basis"], human.noun(f["title"])), f) for f in judged)
    known = {pair: [one for one in found if _is_known(one)] for pair, found in of_pair.items()}
    shown = sorted(known, key=lambda pair: -len(known[pair]))
    several = len({metric for *_, metric in of_pair}) > 1
    lines = []
    for pair in shown[:_MOST_PAIRS]:
        level, against, basis, metric = pair
        ends = [_ratio(family, found) for found in sorted(known[pair], key=itemgetter("ratio"))]
        ends = ends or [(_NO_FIGURE, _most_frequent_why(of_pair[pair]), "")]
        name = ", ".join([f"{level} against {against}", *filter(None, [basis, metric if several else ""])])
        verdicts = _tally(found["verdict"] for found in of_pair[pair])
        lines.append(Pair(name, ends[0], ends[-1] if len(ends) > 1 else ("", "", ""), verdicts))
    return replace(made, ratios=lines, more_ratios=len(shown) - len(lines))


def _most_frequent_why(found: Sequence[Mapping[str, Any]]) -> str:
    """Why none of them has a verdict: the most frequent reason, with its count if there are others.

    Disturbed trials are one reason, whichever trials they were.
    """
    whys = [one["why"] for one in found]
    if len(set(whys)) > 1:
        whys = [_OTHERS if one["refusal"] == Refusal.DISTURBED else one["why"] for one in found]
    ((why, count), *others) = Counter(whys).most_common()
    return human.shortened(why, _LONGEST_WHY) + (f" ({count} of {len(found)})" if others else "")


def _ratio(family: FamilyFacts, found: Mapping[str, Any]) -> tuple[str, str, str]:
    """A ratio; where it was found, with its interval and the number of trials; and the link to its trials."""
    number, *interval = human.ratio(found["ratio"], found["low"], found["high"])
    evidence = "; ".join(filter(None, [_where(family, found), ", ".join([*interval, numbers(found)])]))
    return number, evidence, _trials(family, found["target"], found["case"])


def _trials(family: FamilyFacts, target: str, case: str) -> str:
    """The link from the first page to a case's trials."""
    return f"{family.page}{cells.href(family.shown, target, case)}"


def _where(family: FamilyFacts, found: Mapping[str, Any]) -> str:
    on = f"on {found['target']}" if len(family.shown.targets) > 1 else ""
    return " ".join(filter(None, [found["where"], on]))


def _is_known(found: Mapping[str, Any]) -> bool:
    return found["ratio"] is not None and Verdict(found["verdict"]) is not Verdict.NONE


def _strength(found: Mapping[str, Any]) -> float:
    return found["strength"] or 0.0


def _precision(found: Mapping[str, Any]) -> float:
    return -math.log(found["high"] / found["low"])


# The verdicts in the order in which they are looked for: the words for the choice among several and for a single one,
# and what makes a comparison telling.
_CHOICE: Sequence[tuple[Sequence[Verdict], tuple[str, str], Callable[[Mapping[str, Any]], float]]] = (
    ((Verdict.BETTER, Verdict.WORSE), ("the most certain difference", "the only difference"), _strength),
    ((Verdict.EQUIVALENT,), ("the most certain equivalence", "the only equivalence"), _strength),
    ((Verdict.INCONCLUSIVE,), ("the most precise", "the only one with an interval"), _precision),
)
# What the words of headlines mean, each with the verdicts that make it necessary.
_MEANINGS: Sequence[tuple[Sequence[Verdict], str]] = (
    (
        (Verdict.BETTER, Verdict.WORSE),
        "Better and worse mean that the whole 95 % interval lies beyond the margin that the study declared, and that "
        "this holds after adjustment for the number of comparisons in the table. The most certain difference is the "
        "largest one relative to the smallest difference that its trials could have detected.",
    ),
    (
        (Verdict.EQUIVALENT,),
        "Equivalent means that the 90 % interval lies within the margin that the study declared. The most certain "
        "equivalence is the one whose interval stays nearest to a ratio of 1, relative to its margin.",
    ),
    (
        (Verdict.INCONCLUSIVE,),
        "Inconclusive means that the trials show neither a difference beyond the margin nor its absence. The interval "
        "may still exclude a ratio of 1.",
    ),
    (
        (Verdict.NONE,),
        "A pair without a verdict cannot be compared fairly or has too few trials. The family's page gives the reason.",
    ),
)


def meanings(families: Sequence[FamilyFacts]) -> list[str]:
    """What the words of the families' headlines mean. Verdicts that do not occur are left out."""
    judged, asides = ({v for family in families for v in _verdicts(family, aside=aside)} for aside in (False, True))
    ratios = "A ratio comes from the ratios of single trials, so it can differ from the ratio of the medians."
    told = [text for verdicts, text in _MEANINGS if (judged | asides) & set(verdicts)]
    units = " or ".join(dict.fromkeys(f"{family.shown.unit}s" for family in families))
    count = f"n is the number of {units} or of their pairs, and 95 % marks the interval of the median or ratio."
    return [*([count] if families else []), *([ratios] if judged - {Verdict.NONE} else []), *told]


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
    where = "".join(f" {part}" for part in (found["basis"], _where(family, found)) if part)
    if made is Verdict.EQUIVALENT:
        before, after = f"{level} and {against} are equal within {human.percent(found['margin'])}{where}: ", ""
    elif found["unit"] == "s":
        before, after = f"{level} takes ", f"{' of the time of' if of else ' as long as'} {against}{where}"
    elif found["unit"] in _RATES:
        before, after = f"{level} reaches ", f"{of} the rate of {against}{where}"
    else:
        before, after = f"{level} has ", f"{of} the {human.noun(found['title'])} of {against}{where}"
    sides = (("median", "target", "case"), ("base_median", "base_target", "base_case"))
    medians = [
        (human.quantity(found[median], found["unit"]), _trials(family, found[target], found[case]))
        for median, target, case in sides
    ]
    detail = f"Margin: {human.percent(found['margin'])}. "
    detail += f"{_excluded(found)}{''.join(f'{said[0].upper()}{said[1:]}. ' for said in found['warnings'])}{counted}"
    table = name if name in family.notes.get("comparisons", {}) else ""
    href = f"{family.page}#{anchor('table', table)}" if table else family.page
    factors = {factor.replace("_", " ") for factor in family.shown.factors}
    if before.startswith(("a ", "an ")) or level.rpartition(" ")[0] in factors:  # names keep their case
        before = before[0].upper() + before[1:]
    after = f"{after} {evidence}"
    verdict = made.told, made.value
    return Headline(family.name, family.title, before, number, after, *verdict, found["basis"], medians, detail, href)


def _excluded(found: Mapping[str, Any]) -> str:
    """What an inconclusive comparison rules out all the same."""
    edge = 1 + found["margin"]
    if Verdict(found["verdict"]) is not Verdict.INCONCLUSIVE or not found["better"]:
        return ""
    ends_below, ends_above = found["high"] < edge, found["low"] > 1 / edge
    if ends_below is ends_above:
        return ""
    worse = ends_below is (found["better"] == "lower")
    by = f"{'worse' if worse else 'better'} by more than the margin"
    return f"The interval excludes that {found['level']} is {by}. "


def _absolute(family: FamilyFacts, counted: str) -> Headline:
    """The page's first answers in its own words: figure, n, interval."""
    lines = [(answer["what"], line) for answer in family.answers for line in answer["lines"]]
    known = [(what, line) for what, line in lines if line["value"] != _NO_FIGURE]
    firsts = list({what: (what, line) for what, line in reversed(known)}.values())[::-1][:_MOST_FIRSTS]
    short = [first for first in firsts if len(first[1]["evidence"]) < _LONG_EVIDENCE]
    firsts = short if short[:1] == firsts[:1] else firsts[:1]
    said = [(f"{what}, {line['name']}: ", line["value"], f" ({line['evidence']})") for what, line in firsts]
    before, number, after = said[0] if said else ("Its page gives no answer", "", "")
    after += "".join(f"; {human.noun(b)}{n}{a}" for b, n, a in said[1:])
    return Headline(
        family.name, family.title, before, number, after, "", Verdict.NONE.value, "", (), counted, family.page
    )


def numbers(found: Mapping[str, Any]) -> str:
    """The number of trials behind a finding: "n = 6", "n = 6 pairs", "n = 6 against 5"."""
    against = f" against {found['base_n']}" if found["base_n"] != found["n"] else ""
    return f"n = {found['n']}{' pairs' if found['paired'] else against}"


def _verdicts(family: FamilyFacts, *, aside: bool) -> list[Verdict]:
    """The verdicts of all comparisons on a family's page, including those that it does not note one by one."""
    noted = [calls for calls in family.notes.get("findings", {}).values() if calls["aside"] is aside]
    each = ([*(found["verdict"] for found in calls["found"]), *calls.get("others", ())] for calls in noted)
    return [Verdict(verdict) for verdicts in each for verdict in verdicts]


def _counted(family: FamilyFacts) -> str:
    """ "30 comparisons by primary metrics: 3 better, 12 worse and 15 inconclusive."."""
    judged, asides = (_verdicts(family, aside=aside) for aside in (False, True))
    made = f"{human.plural(len(judged), 'comparison')} by primary metrics"  # pages compare by others, too
    said = f"{made}: {_tally(judged)}." if judged else "No cases were compared with one another."
    if judged and set(judged) == {Verdict.NONE}:
        said = f"None of {made} has a verdict."
    return f"{said} Separately, ways of measuring were compared: {_tally(asides)}." if asides else said


def _tally(verdicts: Iterable[str]) -> str:
    counts = Counter(Verdict(verdict) for verdict in verdicts)
    return _listed([f"{counts[verdict]} {verdict.counted}" for verdict in Verdict if counts[verdict]])


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
