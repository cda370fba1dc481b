"""The pages of trials that have no room on their family's page: plain HTML without a script, one file each."""

import shutil
from pathlib import Path

from benchstudy.report.pagetemplates import page_style, render
from benchstudy.report.trials.triallist import TrialList


def write(trials: TrialList, folder: Path) -> None:
    """Into `folder`, which holds nothing else; there is none when all trials are on the family's page."""
    # Those of a case that is gone must not stay among the reports.
    shutil.rmtree(folder, ignore_errors=True)
    for page in trials.pages():
        path = trials.page_folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render("trials.html.j2", page=page, style=page_style()), encoding="utf-8")
