"""One trial of naps."""

from benchstudy.hosts.agent import Command
from benchstudy.measuring.trial import TrialContext
from benchstudy.model.family import Case


def run_trial(case: Case, trial: TrialContext) -> None:
    """The probe on the host. Raises TrialFailed."""
    length, naps = (str(case.definition[name]) for name in ("nap_s", "naps"))
    argv = trial.agent_argv("sixth_naps:main", case.levels["way"], length, naps)
    trial.execute(Command(argv, timeout_s=trial.config.timeout)).require_success()
