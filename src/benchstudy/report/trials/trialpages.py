"""Writes the pages of trials that do not fit on their family's page: plain HTML without a script, one file each."""

import shutil
from pathlib import Path

from benchstudy.report.pagetemplates import page_style, render
from benchstudy.report.trials.triallist import TrialList


def write(trials: TrialList, folder: Path) -> None:
    """Write the pages into `folder`, which has nothing else. It is removed if the family's page has all trials."""
    # Pages of cases that no longer exist must not stay among the reports.
    shutil.rmtree(folder, ignore_errors=True)
    for page in trials.pages():
        path = trials.page_folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render("trials.html.j2", page=page, style=page_style()), encoding="utf-8")
