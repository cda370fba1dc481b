"""Lints about figures of the hammer's screen."""

from benchstudy.lints.model import Found, Material, rule


@rule(
    "window-of-means",
    "warning",
    why="Minimum and maximum of means hide the variation within each mean: no single request took these times, and "
    "the worst times are averaged away.",
    action="Measure the times of single requests, and give percentiles over all of them.",
)
def window_of_means(material: Material) -> Found:
    found = []
    for group in material.groups:
        names = [n.removesuffix("_avg") for n in group.figures if n.endswith("_avg")]
        windows = [n for n in names if {f"{n}_min", f"{n}_max"} <= set(group.figures)]
        if windows and ("window" in group.figures or any(n.startswith("hammer_") for n in windows)):
            found.append((group, windows))
    if found:
        shown = "; ".join(dict.fromkeys(group.where for group, _ in found))
        kinds = ", ".join(dict.fromkeys(n.replace("hammer_", "") for _, windows in found for n in windows))
        yield shown, f"min/avg/max of {kinds} are over a window of tick means, not over requests"
