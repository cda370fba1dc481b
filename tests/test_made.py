"""Files that are not as a job made them are known, whatever their times, and nothing else is doubted."""

import os
import shutil
from pathlib import Path

import pytest

from benchstudy.jobs import made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A page with a figure, as its job has just made them."""
    root = tmp_path / "project"
    (root / "page" / "figures").mkdir(parents=True)
    for name in ("page.html", "page/figures/a.svg"):
        (root / name).write_text(f"all of {name}")
    made.remember(record(root), made.state([root / "page.html", root / "page/figures/a.svg"], below=root))
    return root


def record(root: Path) -> Path:
    return root / "state" / "page.json"


def altered(root: Path) -> list[Path]:
    return made.altered(record(root), below=root)


@pytest.mark.parametrize("how", ["cut off", "emptied", "edited", "removed", "a folder"])
@pytest.mark.fault(36)
def test_a_file_that_is_not_as_it_was_made_is_named(project, how):
    figure = project / "page/figures/a.svg"
    content = figure.read_text()
    figure.unlink()
    if how == "a folder":
        figure.mkdir()
    elif how != "removed":
        figure.write_text({"cut off": content[:-1], "emptied": "", "edited": content.swapcase()}[how])
    assert altered(project) == [figure]


def test_copies_touches_and_files_that_somebody_adds_are_no_damage(project, monkeypatch):
    copy = project.with_name("copy")
    shutil.copytree(project, copy, copy_function=shutil.copyfile)
    os.utime(copy / "page.html", (1, 1))
    (copy / "page/figures/mine.svg").touch()
    assert altered(copy) == []
    # With the time as it was, nothing is read.
    monkeypatch.setattr(made, "sha256_of", None)
    assert altered(project) == []


def test_without_a_record_what_is_there_is_believed_and_with_a_damaged_one_it_is_not(project):
    whole = record(project).read_text()
    for damaged in (whole[:-1], "", "{}", "[]", "null", "3", '["page.html"]', '{"page.html": [1]}', '{"page.html": 1}'):
        record(project).write_text(damaged)
        assert altered(project) == [record(project)], damaged
    record(project).unlink()
    assert altered(project) == []
    made.disown(record(project))
    assert altered(project) == [record(project)]
