"""One trial of load_test: a load that the study runs (loaded.py), or a window of someone else's (scraped.py)."""

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
    """Run one trial. Raises TrialFailed with a readable cause."""
    try:
        if trial.config.scraped:
            scrape_trial(case, trial)
        else:
            run_load_trial(case, trial)
    finally:
        # The trial's program is the load generator; then the server under test; then the fetch of samples.
        order = {LOAD: 0, SERVER: 1, METRICS: 2}
        trial.commands.sort(key=lambda command: order.get(command.label, len(order)))
