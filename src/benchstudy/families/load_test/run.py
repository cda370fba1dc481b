"""One trial of load_test: run here (run.py), or a window of what someone else ran (scrape.py)."""

from typing import TYPE_CHECKING

from benchstudy.families.load_test.fetch import METRICS
from benchstudy.families.load_test.loaded import run_load_trial
from benchstudy.families.load_test.scraped import scrape_trial
from benchstudy.families.load_test.system import LOAD, SERVER
from benchstudy.model.family import Case

if TYPE_CHECKING:
    from benchstudy.families.load_test.config import LoadTestConfig
    from benchstudy.measuring.trial import TrialContext


def run_trial(case: Case, trial: "TrialContext[LoadTestConfig]") -> None:
    """See the family. Raises TrialFailed with a cause a person understands."""
    try:
        if trial.config.scraped:
            scrape_trial(case, trial)
        else:
            run_load_trial(case, trial)
    finally:
        # The trial's program is what loaded, and what was loaded comes before what watched.
        order = {LOAD: 0, SERVER: 1, METRICS: 2}
        trial.commands.sort(key=lambda command: order.get(command.label, len(order)))
