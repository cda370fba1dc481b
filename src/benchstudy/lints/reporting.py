"""Rules about what a table leaves out, and about text that contradicts the sample beside it."""

from collections import Counter

from benchstudy.lints import words
from benchstudy.lints.model import Figure, Found, Group, Material, rule
from benchstudy.lints.printed import contradicts
from benchstudy.model import rounding
from benchstudy.model.grouping import grouped

_REPETITIONS = ("n", "runs", "repetitions")
_INTERVAL = ("low", "high", "interval")
# Settings of a run: a page that states one several times must always state the same value.
_SETTINGS = ("size", "block_size", "iodepth", "files", "share", "users")
_BINARY = 1.024**3  # "4 GB" and "4G" differ by this factor, and nobody is misled
_ROUNDED = 1.05  # "around 2900"
_LOOSE = 10.0


@rule(
    "n-missing",
    "note",
    why="Without a number of repetitions, nobody can tell a property of the system from chance.",
    action="Print n in every cell, and publish the raw samples.",
    of="published",
)
def n_missing(material: Material) -> Found:
    if not _tells(material, _REPETITIONS) and (count := _count(material)):
        screens = sum("window" in group.figures for group in material.groups)
        pasted = f"; {screens} of its tables are pasted terminal screens, each of one run" if screens else ""
        yield "all figures", f"{words.plural(count, 'figure')} without a number of repetitions{pasted}"


@rule(
    "interval-missing",
    "note",
    why="A figure without an interval cannot be compared: nobody can tell which differences are noise.",
    action="Print an interval for every figure, or say why there is none.",
    of="published",
)
def interval_missing(material: Material) -> Found:
    if not _tells(material, _INTERVAL) and (count := _count(material)):
        yield "all figures", f"{words.plural(count, 'figure')} and no interval"


@rule(
    "failed-without-reason",
    "warning",
    why="Out of memory, refused and merely slow are three different properties of a system. “Failed” does "
    "not say which.",
    action="Print the cause in the cell: what ended the run, and at which limit.",
)
def failed_without_reason(material: Material) -> Found:
    for where, count in material.unexplained.items():
        yield where, f"{words.plural(count, 'trial')} failed, and no cause was recorded"
    totals = Counter(group.section for group in material.groups)
    failed = grouped((g.section, g) for g in material.groups if any(f.status == "failed" for f in g.figures.values()))
    for section, groups in failed.items():
        cells = ", ".join(" ".join(group.levels.values()) for group in groups)
        yield section, f"{len(groups)} of {words.plural(totals[section], 'cell')} say “failed” but not why: {cells}"


@rule(
    "text-against-sample",
    "error",
    why="One of the figures is wrong, and a reader who repeats the measurement cannot know which.",
    action="Generate the figures in the text from the results, and print the output of the printed command.",
    of="published",
)
def text_against_sample(material: Material) -> Found:
    said: dict[tuple, list[tuple[Group, Figure]]] = {}
    for group in material.groups:
        for name, figure in group.figures.items():
            if figure.value is None or name.startswith("command_"):
                continue
            heading = group.section.partition(":")[0]
            # A setting applies to everything under one heading; a result applies to its own levels, wherever it is.
            key = (name, heading) if _is_setting(name, group) else (name, tuple(group.levels.items()))
            said.setdefault(key, []).append((group, figure))
    for (name, *_), figures in said.items():
        shown = dict.fromkeys(f.printed for _, f in figures)
        if len(shown) > 1 and any(_contradict(a, b) for a in figures for b in figures):
            places = "; ".join(f"“{f.printed}” ({g.section}{_line(f)})" for g, f in figures)
            yield f"{figures[0][0].where}, {name.replace('_', ' ')}", places


def _is_setting(name: str, group: Group) -> bool:
    return name in _SETTINGS and "version" not in group.levels and "test" not in group.levels


def _line(figure: Figure) -> str:
    return f", line {figure.line}" if figure.line else ""


def _contradict(first: tuple[Group, Figure], second: tuple[Group, Figure]) -> bool:
    (group, a), (other, b) = first, second
    ops = {g.levels["op"] for g in (group, other) if "op" in g.levels}
    if len(ops) > 1 or a.unit != b.unit or a.value is None or b.value is None or 0 in (a.value, b.value):
        return False
    ratio = b.value / a.value
    if ">" in (a.relation, b.relation):
        return (ratio < 1) if a.relation == ">" != b.relation else False
    allowed = _ROUNDED if "~" in (a.relation, b.relation) else _BINARY if a.unit == "B" else 1.0
    return max(ratio, 1 / ratio) > allowed + 1e-9


@rule(
    "value-against-print",
    "error",
    why="The table has another figure than the page. Everything that is drawn or computed from it is wrong.",
    action="Look at the page, and correct the value or the printed text.",
    of="published",
)
def value_against_print(material: Material) -> Found:
    for group in material.groups:
        for name, figure in group.figures.items():
            exact = figure.value is not None and figure.relation == "="
            if exact and contradicts(figure.value or 0.0, figure.unit, figure.printed):
                value = f"{figure.value:g}{'' if figure.unit == '1' else ' ' + figure.unit}"
                yield (
                    f"{group.where}, {name.replace('_', ' ')}",
                    f"the value is {value}, and printed is “{figure.printed}”",
                )


@rule(
    "loose-threshold",
    "warning",
    why="A limit far above what the page's own good system needs also lets nearly every bad system pass.",
    action="State how the limit was chosen, and give one for each operation, a small multiple of the sample.",
)
def loose_threshold(material: Material) -> Found:
    limits = [(g, g.figures["limit"]) for g in material.groups if "limit" in g.figures]
    for group, limit in limits:
        for other in material.groups:
            sample = other.figures.get("real")
            same = other.section == group.section and other.but("op") == group.but("op")
            if same and sample is not None and sample.value and limit.value and limit.value >= _LOOSE * sample.value:
                what = (
                    f"the limit of {limit.printed} is {rounding.few(limit.value / sample.value)} times the sample of "
                    f"{sample.printed}"
                )
                yield other.where, what


def _tells(material: Material, words_for_it: tuple[str, ...]) -> bool:
    """Whether a figure has one of these names, alone or as in `mean_low`."""
    ends = tuple(f"_{word}" for word in words_for_it)
    return any(name in words_for_it or name.endswith(ends) for group in material.groups for name in group.figures)


def _count(material: Material) -> int:
    return sum(figure.value is not None for group in material.groups for figure in group.figures.values())
