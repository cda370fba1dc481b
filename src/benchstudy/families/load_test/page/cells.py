"""How the page of load tests says differences, verdicts, buckets, and what was not called."""

from benchstudy.report import human
from benchstudy.report.tables.tables import MISSING, Cell
from benchstudy.statistics.comparisons import Comparison, Verdict
from benchstudy.statistics.mix_shift import Quantile

_KINDS = {Verdict.WORSE: "text verdict worse", Verdict.BETTER: "text verdict better"}
_LARGEST_PERCENT = 10.0  # as a share; a larger change is said as a multiple


def signed(value: float, unit: str) -> str:
    """A difference for a reader: "+1.90 ms", "−0.0525 ms"; times below a second in the page's milliseconds."""
    size = human.quantity(abs(value), unit)
    if unit == "s" and abs(value) < 1:
        factor, name = (1e3, "ms") if abs(value) >= 1e-6 or not value else (1e6, "µs")
        size = f"{f'{abs(value) * factor:#,.3g}'.removesuffix('.')} {name}"
    return ("+" if value >= 0 else "−") + size


def signed_percent(ratio: float) -> str:
    """A change as the page writes it: "−0.45 %" of 0.9955; "12.3×" where a percentage would say nothing."""
    change = ratio - 1
    if abs(change) > _LARGEST_PERCENT:
        return f"{ratio:,.1f}×"
    return f"{'+' if change >= 0 else '−'}{abs(change) * 100:.2f} %"


def percent(share: float, digits: int = 1) -> str:
    """A share that is no change: "1.4 %", "5 %" of 0.05 with 0 digits."""
    return f"{100 * share:.{digits}f} %"


def percent_interval(low: float, high: float) -> str:
    return f"95 %: {signed_percent(low)} to {signed_percent(high)}"


def interval_lines(made: Comparison) -> tuple[str, ...]:
    """The interval of a comparison as a line of a cell; none where it has none."""
    return () if made.low is None or made.high is None else (percent_interval(made.low, made.high),)


def verdict_cell(made: Comparison, *about: str) -> Cell:
    """The verdict, why, how sure among how many; `about` is what else must be said beside it."""
    if made.low is None:
        return Cell(("no verdict", made.why, *about), kind="missing verdict")
    p = f"adjusted p {_p(made.adjusted)} of {human.plural(made.tests, 'test')}" if made.adjusted is not None else ""
    unsure = made.smallest_detectable is not None and made.verdict in (Verdict.EQUIVALENT, Verdict.INCONCLUSIVE)
    detect = f"smallest detectable beyond the margin: {percent(made.smallest_detectable or 0.0)}" if unsure else ""
    lines = filter(None, (made.verdict, made.why, p, detect, *about, *made.warnings))
    return Cell(tuple(lines), kind=_KINDS.get(made.verdict, "text verdict"))


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.0005 else "< 0.001"


def no_verdict(why: str) -> Cell:
    return Cell(("no verdict", why), kind="missing verdict")


def not_called() -> Cell:
    return Cell(("not called",), kind="missing", title="no call within the window, which is no time of zero")


def quantile_cell(found: Quantile | None, href: str | None) -> Cell:
    """The bucket that holds the quantile: nothing is known of where in it, so that PromQL's figure stands below."""
    if found is None:
        return MISSING
    return Cell((bucket(found), f"interpolated: {human.quantity(found.value, 's')}"), href)


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
