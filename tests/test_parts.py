"""A further session costs only its own parsing: parsed results are kept in parts, from which tables are made."""

import shutil
from pathlib import Path

import polars as pl
import pytest
from conftest import CHECKOUT, Project, as_project
from many_trials import FAMILY, STUDY, ManyTrials
from test_old_store import different_cells, tables

from benchstudy.jobs import tidy
from benchstudy.jobs.tidy import short_names, tidy_family
from benchstudy.model import paths


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> ManyTrials:
    """A project with two targets, a session on each, and their tables."""
    study = ManyTrials(as_project(tmp_path_factory.mktemp("parts") / "project"), targets=2)
    study.add(2)
    tidied(study)
    return study


@pytest.fixture
def study(original: ManyTrials, tmp_path: Path) -> ManyTrials:
    return original.copied(tmp_path / "project")


def tidied(study: ManyTrials, folder: str = "tidy") -> dict[str, pl.DataFrame]:
    study.adopt()
    tidy_family(study.root, study.plans, study.root / folder)
    return tables(study.root / folder)


def from_nothing(study: ManyTrials) -> dict[str, pl.DataFrame]:
    shutil.rmtree(study.root / ".benchstudy")
    return tidied(study, "anew")


def assert_same(found: dict[str, pl.DataFrame], expected: dict[str, pl.DataFrame]) -> None:
    assert found.keys() == expected.keys()
    assert [line for name in found for line in different_cells(expected[name], found[name])] == []


def parts_of(study: ManyTrials) -> dict[str, int]:
    """For each part, when it was made."""
    folder = paths.parts(study.root, STUDY, FAMILY)
    return {part.name: (part / "part.json").stat().st_mtime_ns for part in folder.iterdir()}


def test_trials_are_called_by_as_many_digits_as_tell_them_apart():
    """Of 100,000 trials, one pair has the same first eight digits."""
    uuids = ["01234567-89ab", "01234567-89ac", "01234568-0000", "fedcba98-7654"]
    assert list(short_names(uuids).values()) == ["01234567-89ab", "01234567-89ac", "01234568", "fedcba98"]


def test_two_trials_of_one_short_name_are_two_in_every_table(study, monkeypatch):
    # As if uuids were alike: the names of trials are longer than those of parts.
    monkeypatch.setattr(tidy, "short_names", lambda uuids: {uuid: uuid[:13] for uuid in uuids})
    found = tidied(study, "longer")
    plain = tables(study.root / "tidy")
    for name, table in found.items():
        if "trial" in table.columns:
            assert set(table["trial"].str.len_chars()) <= {13}
            assert table["trial"].str.slice(0, 8).to_list() == plain[name]["trial"].to_list()


def test_after_one_more_session_only_that_is_parsed(study):
    before = parts_of(study)
    assert len(before) == 2
    study.add(1)
    found, after = tidied(study), parts_of(study)
    assert len(after) == 4 and before.items() <= after.items()
    assert found["trials"]["block"].unique().sort().to_list() == [1, 2, 3]
    for table in found.values():  # the rows of the first session stay together: nothing is sorted again
        for _, of_target in table.group_by("target") if "block" in table.columns else ():
            assert (of_target["block"] == 3).is_sorted() and of_target["block"].max() == 3
    assert_same(found, from_nothing(study))


def test_a_discard_parses_nothing_and_leaves_no_row(study):
    before = parts_of(study)
    store = study.store(study.plans[0])
    trial = store.trials()[0]
    store.discard(trial, "somebody copied a disk")
    found = tidied(study)
    assert parts_of(study) == before
    assert found["trials"].filter(trial=trial.short)["discarded_why"].to_list() == ["somebody copied a disk"]
    others = {name for name, table in found.items() if "trial" in table.columns and name != "trials"}
    assert len(others) > 2 and not any(trial.short in found[name]["trial"] for name in others)
    assert_same(found, from_nothing(study))


@pytest.mark.parametrize("how", ["cut off", "altered", "lost"])
def test_a_damaged_part_is_made_again(study, how):
    whole, before = tables(study.root / "tidy"), parts_of(study)
    damaged = paths.parts(study.root, STUDY, FAMILY) / next(iter(before)) / "observations.parquet"
    content = damaged.read_bytes()
    damaged.unlink()
    if how != "lost":
        damaged.write_bytes(content[:-9] if how == "cut off" else content.replace(b"local", b"lokal"))
    assert_same(tidied(study), whole)
    assert {name for name, made in parts_of(study).items() if before[name] != made} == {damaged.parent.name}


def test_parts_of_no_session_go_and_an_edit_of_the_parser_makes_all_again(study):
    whole, before = tables(study.root / "tidy"), parts_of(study)
    (paths.parts(study.root, STUDY, FAMILY) / "of-another-time").mkdir()
    code = CHECKOUT / "src"
    shutil.copytree(code, study.root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    parser = study.root / "src" / "benchstudy" / "families" / FAMILY / "fio_json.py"
    parser.write_text(f"{parser.read_text()}\n# edited\n")
    Project(study.root).run(
        "python",
        "-c",
        "from pathlib import Path\n"
        "from benchstudy.jobs.tidy import tidy_family\n"
        "from benchstudy.model.studyfile import load_study\n"
        "tidy_family(Path(), load_study(Path('config/config.yaml')).sessions(), Path('tidy'))\n",
    )
    assert len(parts_of(study)) == 2 and not parts_of(study).keys() & before.keys()
    assert_same(tables(study.root / "tidy"), whole)
