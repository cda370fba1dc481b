"""Values that an axis has no place for are named below the figure, and never drawn as another value."""

import json
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from benchstudy.report.figures import vega
from benchstudy.report.figures.axes import Axis
from benchstudy.report.figures.charts import Figure
from benchstudy.report.figures.layers import Panel, Reference
from benchstudy.report.figures.panels import (
    cdf_panel,
    forest_panel,
    forest_panels,
    strip_panel,
    strip_panels,
    time_panel,
    trend_panel,
)
from benchstudy.report.figures.styles import Style

STYLE = Style(("a", "b"))
NOT_DRAWN = "Not drawn, because the axis has no place for such values"
CUT_OFF = "Cut off at the edge of the axis"


def numbers(panel: Panel, *columns: str) -> Iterator[float]:
    """What the panel's marks have in these columns."""
    for rows in panel.spec(300, live=True)["datasets"].values():
        yield from (row[column] for row in rows for column in columns if row.get(column) is not None)


def said(*panels: Panel) -> str:
    said = Figure("name", "Caption.", "", panels, STYLE).html().partition("<figcaption>")[2].partition("</fig")[0]
    assert " s)" not in said, "a line may break between a figure and its unit"
    return said.replace("\N{NO-BREAK SPACE}", " ")


def trials(*values: float) -> pl.DataFrame:
    """Trials of series a, one per value, at x = 1, 2 …"""
    rows = [{"series": "a", "x": float(i), "y": y, "trial": f"t{i}"} for i, y in enumerate(values, 1)]
    return pl.DataFrame(rows)


def medians(*ends: tuple[float, float, float]) -> pl.DataFrame:
    """Medians of series a with the ends of their intervals."""
    rows = [
        {"series": "a", "x": float(i), "y": y, "low": low, "high": high} for i, (low, y, high) in enumerate(ends, 1)
    ]
    return pl.DataFrame(rows)


def test_a_line_of_medians_has_a_gap_where_a_logarithmic_axis_has_no_place():
    measured = trials(0.0, 0.001, -0.002, math.inf)
    of_cases = medians((0.0, 0.0, 0.0005), (-0.1, 0.001, 0.002), (-3.0, -2.0, -1.0), (0.001, math.inf, math.inf))
    curves = pl.DataFrame(
        {"series": ["a"] * 2, "x": [1.0, 2.0], "y": [0.001, 0.0], "low": [0.0, 0.0], "high": [0.002] * 2}
    )
    panel = trend_panel("t", measured, of_cases, Axis("Load", "1"), Axis("Time", "s"), STYLE, curves)
    assert [v for v in numbers(panel, "y", "low", "high", "value") if not 0 < v < 0.01] == []
    assert said(panel) == (
        f"Caption. {NOT_DRAWN}: 1 point of a at 1 (0 s); 1 point of a at 3 (-2.00 ms); 1 point of a at 4 (inf); "
        f"the median of a at 1 (0 s); and 2 more. {CUT_OFF}: the interval of a at 1; the interval of a at 2; "
        "the interval of a at 4."
    )


def test_a_strip_says_in_which_panel_how_many_values_are_missing():
    measured = trials(0.0, 0.0, 2.0).with_columns(x=pl.col("y"))
    of_cases = medians((0.0, 0.0, 3.0)).with_columns(x=pl.col("y"))
    panels = [
        strip_panel(title, measured, of_cases, Axis("Time", "s", log=title == "log"), STYLE, [Reference(0.0, "theirs")])
        for title in ("log", "linear")
    ]
    assert 0 not in list(numbers(panels[0], "x", "low")) and 0 in list(numbers(panels[1], "x"))
    assert said(*panels) == (
        f"Caption. {NOT_DRAWN}: log: 2 points of a (0 s); log: the median of a (0 s); log: the line of theirs (0 s). "
        f"{CUT_OFF}: log: the interval of a."
    )


def test_a_line_over_time_has_a_gap_and_a_band_ends_at_the_edge():
    lines = trials(1.0, 0.0, 3.0).with_columns(line=pl.lit(""))
    bands = pl.DataFrame({"series": ["a"] * 2, "x": [1.0, 3.0], "low": [0.0, 2.0], "high": [2.0, 4.0]})
    panel = time_panel("t", lines, Axis("Time", "time", log=False), Axis("Rate", "1/s"), STYLE, bands=bands)
    assert 0 not in list(numbers(panel, "y", "low"))
    assert said(panel) == f"Caption. {NOT_DRAWN}: 1 point of a (0/s). {CUT_OFF}: the interval of a."


def test_shares_end_before_an_open_bucket():
    steps = pl.DataFrame({"series": ["a"] * 3, "x": [0.0, 0.5, math.inf], "fraction": [0.1, 0.9, 1.0]})
    panel = cdf_panel("t", steps, Axis("Latency", "s"), STYLE)
    assert list(numbers(panel, "x")) == [0.5] and said(panel) == f"Caption. {NOT_DRAWN}: 2 steps of a (0 s, inf)."


def test_a_ratio_of_zero_is_named_and_an_interval_without_an_end_is_cut_off():
    ratios = pl.DataFrame(
        {"row": ["p50", "p99", "max"], "series": ["a"] * 3, "x": [0.0, 2.0, 1.0], "low": [0.0, 0.0, 0.9],
         "high": [0.0, math.inf, 1.1], "decided": [True] * 3}
    )  # fmt: skip
    panel = forest_panel("t", ratios, "Ratio", STYLE, 0.05)
    assert [v for v in numbers(panel, "x", "low", "high") if not 0 < v < 10] == []
    assert said(panel) == (f"Caption. {NOT_DRAWN}: the ratio of p50 · a (0 ×). {CUT_OFF}: the interval of p99 · a.")


LONG = [f"copyparty · transcode · ab · concurrency {n}" for n in (2, 10, 500)] + ["nginx", "a-b · k6"]


def texts_of(figure: Path) -> list[str]:
    return re.findall(r"<t(?:ext|span)\b[^>]*>([^<]+)<", figure.read_text())


def test_a_figure_for_a_column_cuts_off_no_name_and_no_title(tmp_path):
    title = "Ratio to 4-cores-512MiB (higher is better)"
    ratios = [dict(row=name, series="a", x=1.5, low=1.4, high=1.6, decided=True) for name in LONG]
    measured = [dict(series=name, x=1.5, trial="t") for name in LONG]
    of_cases = [dict(series=name, x=1.5, low=1.4, high=1.6) for name in LONG]
    axis, style = Axis("Rate", "1/s"), Style(tuple(LONG))
    panels = (
        forest_panel("t", pl.DataFrame(ratios), title, STYLE, 0.05),
        strip_panel("t", pl.DataFrame(measured), pl.DataFrame(of_cases), axis, style),
    )
    Figure("limits", "Caption.", "", panels, STYLE).write(tmp_path)
    lines = texts_of(tmp_path / "limits-85mm.svg")
    read = " ".join(lines).replace("\u00a0", " ")
    assert [read.count(text) for text in (*LONG, title)] == [2] * 5 + [1]
    assert max(map(len, lines)) <= 29 and "…" not in read


WORDS = "copyparty · transcode · ab · a further factor of this study · concurrency "


@pytest.mark.parametrize(
    "names",
    [
        [f"{WORDS}{n}" for n in (2, 10)],
        [f"{WORDS}{n} · and more behind it, also rather long" for n in (2, 10)],
        [f"{'x' * 80}{n}" for n in (1, 2)],
        ["x" * 40, "x" * 41, "x" * 42 + "y" * 40],
        [f"a {'x' * 45}{n}" for n in (1, 2)],
        [f"{WORDS}1 · {'z' * n}" for n in (0, 1, 40)],
    ],
)
def test_rows_with_long_names_never_have_the_same_label(tmp_path, names):
    ratios = [dict(row=name, series="a", x=1.5, low=1.4, high=1.6, decided=True) for name in names]
    panel = forest_panel("t", pl.DataFrame(ratios), "Ratio", STYLE, 0.05)
    Figure("limits", "Caption.", "", (panel,), STYLE).write(tmp_path)
    drawn = re.findall(
        r"<text[^>]*>((?:<tspan[^>]*>[^<]*</tspan>)+)</text>", (tmp_path / "limits-85mm.svg").read_text()
    )
    labels = {tuple(re.findall(r">([^<]+)<", text)) for text in drawn}
    assert len(labels) == len(names) and all(len(lines) == 2 for lines in labels)


def test_dashes_tell_series_and_widths_tell_percentiles():
    lines = trials(1.0, 2.0).join(pl.DataFrame({"line": ["p99", "p50"]}), how="cross")
    panel = time_panel("t", lines, Axis("Time", "time", log=False), Axis("Rate", "1/s"), STYLE)
    (line,) = (layer for layer in panel.spec(300)["layer"] if layer["mark"]["type"] == "line")
    assert (line["encoding"]["strokeDash"]["field"], line["encoding"]["strokeWidth"]["field"]) == ("series", "line")
    drawn = vega.svg(panel.spec(300))
    assert len(set(re.findall(r'stroke="#00529B" stroke-width="([^"]*)" stroke-dasharray', drawn))) == 2


def test_the_median_of_a_case_without_a_line_is_drawn():
    panel = trend_panel("t", trials(1.0), medians((0.5, 1.2, 2.0)), Axis("Load", "1"), Axis("Time", "s"), STYLE)
    assert 'fill="#00529B"' in vega.svg(panel.spec(300))


def test_readers_are_told_what_numbers_in_a_legend_are(tmp_path):
    style = Style(("1", "50"), ordered=True)
    steps = pl.DataFrame({"series": ["1", "50"], "x": [0.5, 0.9], "fraction": [1.0, 1.0]})
    panel = cdf_panel("t", steps, Axis("Latency", "s"), style)
    figure = Figure("cdf", "Caption.", "", (panel,), style, style.names, "Concurrency")
    figure.write(tmp_path)
    assert texts_of(tmp_path / "cdf.svg")[:3] == ["Concurrency:", "1", "50"]
    assert "<li>Concurrency:</li>" in figure.html() and "<li>Concurrency:</li>" in figure.static_html(1)


def test_a_legend_shows_lines_and_points_as_the_figure_does():
    steps = pl.DataFrame({"series": ["a", "b"], "x": [0.5, 0.9], "fraction": [1.0, 1.0]})
    axis = Axis("Time", "s")
    panels = {
        "lines": cdf_panel("t", steps, axis, STYLE),
        "points": strip_panel("t", trials(1.0), medians((0.5, 1.2, 2.0)), axis, STYLE),
        "both": trend_panel("t", trials(1.0), medians((0.5, 1.2, 2.0)), Axis("Load", "1"), axis, STYLE),
    }
    shown = {}
    for name, panel in panels.items():
        legend = re.search("<ul.*?</ul>", Figure("f", "Caption.", "", (panel,), STYLE, STYLE.names).html())[0]
        shown[name] = ("stroke-dasharray" in legend, "<circle" in legend)
    assert shown == {"lines": (True, False), "points": (False, True), "both": (True, True)}


def test_the_legend_of_the_first_panels_has_only_their_series():
    panels = []
    for name in ("a", "b"):
        steps = pl.DataFrame({"series": [name, name], "x": [0.5, 0.9], "fraction": [0.5, 1.0]})
        panels.append(cdf_panel(name, steps, Axis("Time", "s"), STYLE))
    figure = Figure("f", "Caption.", "", tuple(panels), STYLE, ("a", "b"))
    legends = [re.findall("</svg>(.*?)</li>", figure.static_html(number)) for number in (1, 2)]
    assert legends == [["a"], ["a", "b"]]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((2550, 2820), [2000, 2500, 3000]),
        ((99, 101), [80, 100]),
        ((1000, 2000), [1000, 1500, 2000, 2500]),
        ((30, 900), [50, 100, 200, 500, 1000]),
        ((1, 1000), [1, 10, 100, 1000]),
    ],
)
def test_a_logarithmic_axis_of_close_values_has_more_than_one_tick(values, ticks):
    assert Axis("x", "1/s").encode(values)["axis"].values == ticks


def test_labels_of_an_axis_stay_apart_in_a_wide_font():
    """On Linux, a browser's usual font has digits of 0.64 em. Figures are drawn with a narrower one."""
    measured = pl.DataFrame({"series": ["a", "a"], "x": [2_000.0, 86_000.0], "trial": ["t1", "t2"]})
    of_cases = pl.DataFrame({"series": ["a"], "x": [80_000.0], "low": [70_000.0], "high": [90_000.0]})
    panel = strip_panel("t", measured, of_cases, Axis("Operations per second", "1/s"), STYLE)
    drawn = Figure("f", "Caption.", "", (panel,), STYLE).static_html(1)
    labels = re.findall(r'="middle" transform="translate\(([\d.]+),[^>]* opacity="1">([\d,]+/s)<', drawn)
    halves = [0.64 * 12 * len(text) / 2 for _, text in labels]
    ends = [(float(x) - half, float(x) + half) for (x, _), half in zip(labels, halves, strict=True)]
    assert len(ends) > 3 and all(end < begin for (_, end), (begin, _) in pairwise(ends)), labels


@pytest.mark.parametrize(
    ("unit", "value", "label"), [("s", -0.004, "−4 ms"), ("B", -4e6, "−4 MB"), ("B/s", -4e6, "−4 MB/s")]
)
def test_a_figure_below_zero_has_the_unit_of_its_size(unit, value, label):
    measured = pl.DataFrame({"series": ["a"], "x": [value], "trial": ["t1"]})
    of_cases = pl.DataFrame({"series": ["a"], "x": [value], "low": [value], "high": [value]})
    panel = strip_panel("t", measured, of_cases, Axis("Difference", unit, log=False), STYLE)
    assert f">{label}<" in Figure("f", "Caption.", "", (panel,), STYLE).static_html(1)


@pytest.mark.parametrize("from_zero", [True, False])
@pytest.mark.parametrize("values", [(-3.0, 5.0), (0.0, 5.0), (-5.0, -3.0)])
def test_a_linear_axis_has_room_for_zero_and_less(values, from_zero):
    low, high = Axis("Change", "s", log=False, from_zero=from_zero).encode(values)["scale"].to_dict()["domain"]
    assert low <= min(values) and high >= max(values) and (low <= 0 <= high or not from_zero)


@pytest.mark.long
@pytest.mark.parametrize("rows", [40, 67])
def test_a_figure_of_very_many_rows_fits_on_a_page_of_a_paper(tmp_path, rows):
    names = [f"case {number}" for number in range(rows)]
    ratio = dict(x=1.5, low=1.4, decided=True)
    ratios = [ratio | dict(row=name, series=of, high=1.6 + n) for n, name in enumerate(names) for of in STYLE.names]
    measured = [dict(series="a", place=name, x=1.5 + n, trial="t") for n, name in enumerate(names)]
    of_cases = [dict(series="a", place=name, x=1.5 + n, low=1.4, high=1.6 + n) for n, name in enumerate(names)]
    every = {
        "forest": forest_panels("Ratio", pl.DataFrame(ratios), "Ratio to x (higher is better)", STYLE, 0.05),
        "strip": strip_panels("Time", pl.DataFrame(measured), pl.DataFrame(of_cases), Axis("Time", "s"), STYLE),
    }
    for name, panels in every.items():
        Figure(name, "Caption.", "", tuple(panels), STYLE, STYLE.names).write(tmp_path)
        drawn = sorted(tmp_path.glob(f"{name}*.svg"))
        sheets = [re.search(r'width="([\d.]+)mm" height="([\d.]+)mm"', path.read_text()) for path in drawn]
        assert all(sheet and float(sheet[2]) <= 235 for sheet in sheets)
        texts = [text for path in drawn if "-85mm" not in path.name for text in texts_of(path)]
        assert sorted(set(names) & set(texts)) == sorted(names), "no row is lost"
        pictures = {path.stem for path in tmp_path.glob(f"{name}*.png")}
        assert pictures == {path.stem for path in drawn if "-85mm" not in path.name}
        assert panels[0].title in texts and panels[0].title.endswith(f", 1 of {len(panels)}")
        axes = [json.dumps(panel.spec(300)["layer"][-1]["encoding"]["x"]) for panel in panels]
        assert axes[0] == axes[1], "panels of one metric have the same axis"
