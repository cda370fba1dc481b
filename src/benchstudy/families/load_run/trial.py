"""One trial of load_test: run here (run.py), or a window of what someone else ran (scrape.py)."""

from typing import TYPE_CHECKING

from benchstudy.families.base import Case
from benchstudy.families.load_run.run import run_load_trial
from benchstudy.families.load_run.scrape import scrape_trial

if TYPE_CHECKING:
    from benchstudy.trial import TrialContext


def run_trial(case: Case, trial: "TrialContext") -> None:
    """See the family. Raises TrialFailed with a cause a person understands."""
    if trial.config.scraped:
        scrape_trial(case, trial)
    else:
        run_load_trial(case, trial)
