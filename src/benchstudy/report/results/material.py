"""Turns a family's results, measured or imported, into material for lints."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from benchstudy.lints.model import Ceiling, Figure, Group, Material
from benchstudy.model.files import nothing_collected

if TYPE_CHECKING:
    from benchstudy.report.results.results import Results


@nothing_collected()
def read(results: "Results", ceilings: Iterable[Ceiling] = (), several: bool = False) -> Material:
    """The material of a family: cases with the medians of their metrics as groups, single trials as samples.

    `several`: whether the study has targets other than those of `results`.
    """
    import polars as pl

    several = several or len(results.targets) > 1
    levels, groups, samples = {}, [], []
    for row in results.cases.iter_rows(named=True):
        known = {f: str(row[f]) for f in results.factors if row[f] is not None}
        levels[row["target"], row["case"]] = ({"target": row["target"]} if several else {}) | known
    usable, value = results.usable, pl.col("value")
    units = dict(usable.group_by("metric").agg(pl.col("unit").last()).iter_rows())
    of_case: dict[tuple[str, str], dict[str, list[float]]] = {}
    grouped = usable.group_by("target", "case", "metric", maintain_order=True).agg(value)
    for target, case, metric, values in grouped.iter_rows():
        of_case.setdefault((target, case), {})[metric] = values
    # In the study's order, because the first of two versions is the base.
    order = {key: place for place, key in enumerate({**levels, **of_case})}
    for key in sorted(of_case, key=order.__getitem__):
        metrics = of_case[key]
        figures = {m: Figure(median(values), units[m], values=tuple(values)) for m, values in metrics.items()}
        given = [v for m in results.telling("storage") if units.get(m) == "B" for v in metrics.get(m, ())]
        groups.append(Group("", levels.get(key, {"case": key[1]}), figures, min(given, default=None)))
    of_trial = usable.group_by("target", "case", "trial", maintain_order=True).agg("metric", value, "unit")
    for target, case, trial, *columns in of_trial.iter_rows():
        own = {**levels.get((target, case), {"case": case}), "trial": f"trial {trial}"}
        samples.append(Group("", own, {m: Figure(v, u, values=(v,)) for m, v, u in zip(*columns, strict=True)}))
    failed = results.counted.filter((pl.col("status") != "ok") & pl.col("cause").is_null())
    unexplained = Counter(
        Group("", levels.get(key, {"case": key[1]}), {}).where for key in failed.select("target", "case").iter_rows()
    )
    totals = Counter(results.counted.select("target", "case").iter_rows())
    met = results.counted.filter(pl.col("trial").is_in(list(results.disturbed)))
    disturbed = {
        Group("", levels.get(key, {"case": key[1]}), {}).where: (count, totals[key])
        for key, count in Counter(met.select("target", "case").iter_rows()).items()
    }
    labels = _labels(results, {key: Group("", of, {}).where for key, of in levels.items()})
    return Material(
        results.family,
        "measured",
        tuple(groups),
        tuple(samples),
        tuple(ceilings),
        unexplained,
        labels,
        tuple(results.primary_metrics),
        disturbed,
    )


def _labels(results: "Results", names: Mapping[tuple[str, str], str]) -> dict[str, dict[str, dict[str, float]]]:
    """Calls by label, for families that count them, over all trials of a case."""
    import polars as pl

    rows = results.series("labels")
    found: dict[str, dict[str, dict[str, float]]] = {}
    if rows is None or not {"group", "label", "count"} <= set(rows.columns):
        return found
    counted = rows.group_by("target", "case", "group", "label", maintain_order=True).agg(pl.col("count").sum())
    for target, case, group, label, count in counted.iter_rows():
        found.setdefault(names.get((target, case), case), {}).setdefault(group, {})[label] = count or 0.0
    return found
