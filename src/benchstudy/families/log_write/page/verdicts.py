"""The family's own reasons against a verdict between two studies; see report/comparisons/reasons.py."""

from benchstudy.families.log_write.page.load import LogWrite
from benchstudy.report.comparisons.comparison import Unfit
from benchstudy.report.comparisons.reasons import SettledAlone
from benchstudy.report.results.results import Results


def reasons(results: Results) -> tuple[Unfit, SettledAlone]:
    load = LogWrite(results, {})
    return load.unfit, load.settled
