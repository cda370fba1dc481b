"""Rules on published changes from one version to the next."""

from collections.abc import Iterator

from benchstudy.lints.model import Found, Group, Material, rule

_CHANGE = "_change"


@rule(
    "vanished-series",
    "error",
    why="A series that one version did not produce has no value there. Read as zero, it becomes an improvement of "
    "100 % or more, and it shifts every mean over series.",
    action="Show it as “not called” outside the comparison, and compare totals over the series that both have.",
)
def vanished_series(material: Material) -> Found:
    for where, statistic, old, new, change in _pairs(material):
        low = change is not None and (change.value or 0.0) < -1
        # In our own results a missing series has no figure, so a zero is a real zero: no packet was sent twice.
        if old.value and new.value == 0 and material.kind == "published":
            said = f", which is printed as {_percent(change)}" if change is not None else ""
            impossible = "; nothing can fall by more than 100 %" if low else ""
            yield where, f"{statistic} fell from {_said(old)} to {_said(new)}{said}: the series is missing{impossible}"
        elif low:
            yield where, f"{statistic} is printed as changed by {_percent(change)}: nothing can fall by more than 100 %"


@rule(
    "zero-base",
    "error",
    why="A relative change needs a base. Where the base is zero, or rounds to it, the quotient is rounding noise "
    "and can take any value.",
    action="Print the absolute change, and how often it happened on each side.",
)
def zero_base(material: Material) -> Found:
    for where, statistic, old, new, change in _pairs(material):
        if old.value == 0 and new.value and change is not None:
            what = (
                f"{statistic} changed from {_said(old)} to {_said(new)}, which is printed as {_percent(change)}: "
                "the base is zero at its printed precision"
            )
            yield where, what


@rule(
    "borrowed-variance",
    "warning",
    why="How much two identical runs differ depends on the machines, the load and the duration. A band from elsewhere "
    "can hide a real change here, or turn noise into one.",
    action="Run the same version twice here (A/A), interleaved with the comparison, and take the band from that.",
)
def borrowed_variance(material: Material) -> Found:
    for group in material.groups:
        band = group.figures.get("usual_variance")
        if band is None or any(_is_repeated(g) for g in material.groups):
            continue
        judged = dict.fromkeys(
            f"{figure.printed} ({other.levels.get('test', other.where)})"
            for other in material.groups
            for name, figure in other.figures.items()
            if name == "users_change" and figure.value is not None
        )
        what = (
            f"{', '.join(judged) or 'a change'} is judged against a “usual” variance of {band.printed}, which is from "
            "elsewhere, and nothing here was run twice"
        )
        yield group.where, what


@rule(
    "mix-driven",
    "warning",
    why="A mean over many kinds of calls changes when other calls are made, even if none of them got slower or "
    "faster. Without the kind of call that left or entered, the change is different.",
    action="Compare like for like, at the base's mix of calls; show what the calls and what the mix contributed.",
)
def mix_driven(material: Material) -> Found:
    for _, groups in material.by(lambda group: (group.section, group.but("series"))):
        everything = [g for g in groups if g.levels.get("series", "").startswith("all ")]
        for group, rest in [(g, r) for g in everything for r in groups if _leaves_out(r)]:
            for name, figure in group.figures.items():
                other = rest.figures.get(name)
                if not name.endswith("_difference") or other is None or not figure.value or other.value is None:
                    continue
                if other.value * figure.value < 0 or abs(other.value) < 0.5 * abs(figure.value):
                    statistic = name.removesuffix("_difference")
                    yield (group.where, f"{statistic}: {_said(figure)}, and {_said(other)} {rest.levels['series']}")


def _leaves_out(group: Group) -> bool:
    return group.levels.get("series", "").startswith("without ")


def _is_repeated(group: Group) -> bool:
    return bool({"n", "runs", "repetitions", "aa_variance"} & set(group.figures))


def _pairs(material: Material) -> Iterator[tuple]:
    """(where, statistic, figure of the older version, of the newer one, the printed change or None)."""
    versions = list(dict.fromkeys(g.levels["version"] for g in material.groups if "version" in g.levels))
    if len(versions) != 2:
        return
    for _, groups in material.by(lambda group: (group.section, group.but("version"))):
        by_version = {group.levels.get("version"): group for group in groups}
        old, new = (by_version.get(version) for version in versions)
        if old is None or new is None:
            continue
        both = by_version.get(None)
        where = Group(old.section, dict(old.but("version")), {}).where
        for statistic in (name for name in old.figures if name in new.figures):
            change = both.figures.get(statistic + _CHANGE) if both is not None else None
            yield where, statistic, old.figures[statistic], new.figures[statistic], change


def _said(figure) -> str:
    return figure.printed or f"{figure.value:g}"


def _percent(figure) -> str:
    # In the form in which it was printed, because that is what the finding is about.
    return f"{100 * figure.value:,.0f} %" if abs(figure.value) > 2 else f"{100 * figure.value:.1f} %"
