"""The project of a stored study, with placeholders for reports."""

import json
from pathlib import Path

from conftest import Project, copy_project
from stored_study import STUDY, StoredStudy

CSV = "Size,disk,bucket\n100KB,0.57 ms,failed: 403 (2 of 2)\n"


class CrateStudy(StoredStudy):
    """The project at `root`, with the study measured and reported."""

    def __init__(self, root: Path, project: Project | None = None):
        self.project = project or copy_project(root)
        self.file = self.project.write_study(STUDY)
        super().__init__(root)
        self._reports()

    def _reports(self) -> None:
        own = self.root / "reports" / "small"
        for name, text in {
            "index.html": "<!DOCTYPE html><title>Small files</title>",
            "file_size.html": "<!DOCTYPE html><title>Files</title>",
            "file_size/tables/write.csv": CSV,
            "notebooks/file_size.ipynb": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
            "file_size/.snakemake_timestamp": "",
            "dropped.html": "of a family that the study no longer has",
        }.items():
            path = own / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
