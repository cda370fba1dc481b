"""Table cells of the load test page: differences, verdicts, buckets, and labels without calls."""

from benchstudy.model import rounding
from benchstudy.report import human
from benchstudy.report.comparisons.comparison import VERDICT_KINDS, adjusted_lines
from benchstudy.report.tables.tables import MISSING, Cell
from benchstudy.statistics.comparisons import Comparison, Verdict
from benchstudy.statistics.mix_shift import Quantile

_LARGEST_PERCENT = 10.0  # as a share; a larger change is written as a multiple


def signed(value: float, unit: str) -> str:
    """Format a difference: "+1.90 ms", "−0.0525 ms"; times below a second are in milliseconds."""
    size = human.quantity(abs(value), unit)
    if unit == "s" and abs(value) < 1:
        size = human.Scale(*((1e-3, "ms") if abs(value) >= 1e-6 or not value else (1e-6, "µs"))).text(abs(value))
    return ("+" if value > 0 else "−" if value < 0 else "") + size


def signed_percent(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """Format a ratio as a change: "−0.450 %" for 0.9955; "12.3×" where a percentage would be too large to read.

    `low`, `high`: the interval beside it, which sets the number of digits.
    """
    to = rounding.digits(low and low - 1, high and high - 1)
    return human.times(ratio, to) if abs(ratio - 1) > _LARGEST_PERCENT else human.change(ratio - 1, to)


def percent_interval(low: float, high: float) -> str:
    return f"95 %: {signed_percent(low, low, high)} to {signed_percent(high, low, high)}"


def interval_lines(made: Comparison) -> tuple[str, ...]:
    """The interval of a comparison as one line of a cell; empty if there is no interval."""
    return (percent_interval(made.evidence.low, made.evidence.high),) if made.evidence else ()


def ratio_lines(made: Comparison) -> tuple[str, ...]:
    """The ratio of a comparison and its interval, as two lines of a cell; empty if there is no interval."""
    interval = interval_lines(made)
    return (signed_percent(made.ratio, *made.interval), *interval) if interval and made.ratio is not None else ()


def verdict_cell(made: Comparison, *about: str) -> Cell:
    """The verdict, its reason and its adjusted p value; `about` adds further lines."""
    if made.evidence is None:
        return Cell(("no verdict", made.why, *about), kind="missing verdict")
    p = f"adjusted p {'; '.join(adjusted_lines(made))}" if made.adjusted is not None else ""
    unsure = made.verdict in (Verdict.EQUIVALENT, Verdict.INCONCLUSIVE)
    smallest = human.percent(made.evidence.smallest_detectable)
    detect = f"smallest detectable beyond the margin: {smallest}" if unsure else ""
    lines = filter(None, (made.verdict, made.why, p, detect, *about, *made.warnings))
    return Cell(tuple(lines), kind=VERDICT_KINDS.get(made.verdict, "text verdict"))


def no_verdict(why: str) -> Cell:
    return Cell(("no verdict", why), kind="missing verdict")


def called(value: float | None, unit: str, href: str) -> Cell:
    """A figure of calls; None if there was none."""
    if value is None:
        return Cell(("not called",), kind="missing", title="no call within the window; this is not a time of zero")
    return Cell((human.quantity(value, unit),), href)


def quantile_cell(found: Quantile | None, href: str | None, over: str = "all calls") -> Cell:
    """The bucket that holds the quantile, with PromQL's interpolation below: the place within it is not known.

    `over`: the calls whose quantile it is, as other tables interpolate the quantiles of single trials.
    """
    if found is None:
        return MISSING
    return Cell((bucket(found), f"interpolated over {over}: {human.quantity(found.value, 's')}"), href)


def bucket(found: Quantile) -> str:
    """ "< 5 ms" in the lowest bucket, "25–50 ms", "> 10 s" above the last edge."""
    if found.high is None:
        return f"> {_edge(found.low)}"
    if not found.low:
        return f"< {_edge(found.high)}"
    low, high = _edge(found.low), _edge(found.high)
    same_unit = low.split(" ")[-1] == high.split(" ")[-1]
    return f"{low.split(' ')[0] if same_unit else low}–{high}"


def _edge(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1e3:g} ms"
