"""Writes the pages of trials that are not on their family's page: plain HTML without a script, one file each."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from benchstudy.report.pagetemplates import page_style, render
from benchstudy.report.trials.triallist import TrialPage


def write(pages: Iterable[TrialPage], folder: Path, beside: Path) -> None:
    """Write the pages into `folder`, which has nothing else. Without any, it is removed.

    `beside`: the folder of the family's page.
    """
    # Pages of cases and targets that no longer exist must not stay among the reports.
    shutil.rmtree(folder, ignore_errors=True)
    style = page_style()
    for page in pages:
        path = beside / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render("trials.html.j2", page=page, style=style), encoding="utf-8")
