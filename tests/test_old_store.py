"""Raw stores and tables of commit b9a61cf: today's code reads the same from the old trials, cell by cell.

`tests/data/store-b9a61cf/README.md` says how they were made.
"""

import tarfile
from pathlib import Path

import polars as pl
import pytest
from conftest import CHECKOUT, executed_in, pages_made_in

from benchstudy.families.log_write.page import reasons
from benchstudy.jobs.tidy import tidy_family
from benchstudy.measuring.storedtrials import load_trial
from benchstudy.measuring.trialrecord import TrialRecord
from benchstudy.model.causes import Cause
from benchstudy.model.studyfile import load_study
from benchstudy.report.exhibits.cells import short_cause
from benchstudy.report.results.results import Reason

STORES = CHECKOUT / "tests" / "data" / "store-b9a61cf"
# Tables and columns {table: names} that exist today and did not then. Everything else is unchanged.
NEW_TABLES = {"limits", "checks", "search", "hosts", "clients"}
NEW_COLUMNS = {
    "trials": {"cause_kind", "disturbed", "disturbance", "set_aside", "programs"},
    "client": {"timed"},
    "steps": {"missed", "seen", "bound", "busy_generator", "cause", "said", "dropped"},
}
NEW_METRICS = {"publish_steps", "swing", "achieved_share", "api_calls", "store_calls", "users_low"}
# Values that more trials have today; where they existed then, they are unchanged. k6's generator had been left out.
MORE_OFTEN = {"generator_cpu"}
# Values that were wrong then. A log's rate began at the last checkpoint before the window, and so included its warm-up.
# Of a load, calls before the first scrape of their series were missing, and told as an event; its bracket of users had
# no lower end, or no upper one.
MENDED_METRICS = {"qps", "qps_low", "qps_high", "achieved_share", "api_mean", "store_mean", "users_high"}
MENDED_COLUMNS = {
    "steps": {"achieved_per_s"}, "labels": {"count", "sum_s", "mean_s"}, "buckets": {"count"},
}  # fmt: skip
# k6's were diluted by the wait for the last response, or counted the request that it sends as the load ends.
MENDED_OF_K6 = {"transfer_rate", "server_cpu", "generator_cpu", "offered"}
# ab's mean was too large where one slow request stood for half of the slowest hundredth.
MENDED_OF_AB = {"latency_mean", "concurrency_measured", "little_error"}


@pytest.fixture(scope="module", params=["embedded", "endings"])
def store(request, tmp_path_factory):
    """A project of the store, with the old tables below data/tidy and today's tables below tidy-now."""
    root = tmp_path_factory.mktemp(request.param)
    with pages_made_in(root):
        with tarfile.open(STORES / f"{request.param}.tar.xz") as archive:
            archive.extractall(root)  # no filter, because the Python of Debian 12 has none
        study = load_study(root / "study.yaml")
        for plan in study.sessions():
            tidy_family(root, [plan], root / "tidy-now" / study.study / plan.family_name)
        yield root


def test_tables_are_the_same_cell_by_cell(store):
    then, now = tables(store / "data" / "tidy"), tables(store / "tidy-now")
    assert {Path(name).name for name in set(now) - set(then)} <= NEW_TABLES and not set(then) - set(now)
    differences = []
    for name, old in then.items():
        new = now[name]
        stem = Path(name).stem
        assert set(new.columns) - set(old.columns) == NEW_COLUMNS.get(stem, set()), name
        if stem == "steps":  # a page makes the sentence now
            told = [reasons.told(row) or None for row in new.iter_rows(named=True)]
            new = new.with_columns(pl.Series("why", told, pl.String))
        if stem == "observations":
            assert set(new["metric"]) - set(old["metric"]) <= NEW_METRICS | MORE_OFTEN
            told_then = old.filter(pl.col("metric").is_in(MORE_OFTEN))["trial"].to_list()
            new = new.filter(~pl.col("metric").is_in(MORE_OFTEN) | pl.col("trial").is_in(told_then))
            of_k6 = pl.col("case").str.contains("generator=k6") & pl.col("metric").is_in(MENDED_OF_K6)
            of_ab = pl.col("case").str.contains("generator=ab") & pl.col("metric").is_in(MENDED_OF_AB)
            mended = pl.col("metric").is_in(NEW_METRICS | MENDED_METRICS) | of_k6 | of_ab
            old, new = (table.filter(~mended) for table in (old, new))
        if stem == "events":
            old, new = (table.filter(pl.col("what") != "appeared") for table in (old, new))
        kept = [column for column in old.columns if column not in MENDED_COLUMNS.get(stem, set())]
        differences += [f"{name}: {text}" for text in different_cells(old.select(kept), new.select(kept))]
    assert not differences, "\n".join(differences[:20])


def test_a_log_s_old_rates_hold_nothing_of_their_short_warm_up(store):
    """Half a second is less than a publish step of one: the rate began with the empty tree, before any write."""
    then, now = (tables(store / folder) for folder in ("data/tidy", "tidy-now"))
    for name, new in now.items():
        if not name.endswith("log_write/observations"):
            continue
        growth = now[name.replace("observations", "growth")]
        inside = now[name.replace("observations", "phases")].filter(phase="window")
        for trial, begin, end in inside.select("trial", "start_s", "end_s").iter_rows():
            seen = growth.filter((pl.col("trial") == trial) & pl.col("t_s").is_between(begin, end))
            first, last = seen.row(0, named=True), seen.row(-1, named=True)
            told = dict(new.filter(trial=trial).select("metric", "value").iter_rows())
            assert told["publish_steps"] == seen.height - 1
            assert told["qps"] == pytest.approx((last["size"] - first["size"]) / (last["t_s"] - first["t_s"]))
            before = growth.filter((pl.col("trial") == trial) & (pl.col("t_s") <= begin))
            if before["size"][-1] == 0:
                (was,) = then[name.replace("tidy-now", "data/tidy")].filter(trial=trial, metric="qps")["value"]
                assert was != told["qps"]


def test_a_load_s_old_counts_lack_the_calls_that_were_told_as_not_counted(store):
    then, now = tables(store / "data" / "tidy"), tables(store / "tidy-now")
    for name in (name for name in now if name.endswith("load_test/labels")):
        more = now[name]["count"] - then[name]["count"]
        events = name.replace("labels", "events")
        told_then, told_now = (
            of[events].filter(what="appeared")["detail"].str.extract_all(r"\((\d+)\)").explode().str.strip_chars("()")
            for of in (then, now)
        )
        assert more.min() == 0 and more.sum() >= told_then.cast(pl.Int64).sum() > 0 and told_now.is_empty()


@pytest.mark.parametrize("family", ["http_concurrency", "log_write"])
def test_pages_are_made_of_the_old_trials(store, family):
    study = load_study(store / "study.yaml").study
    executed_in(store, family, study=study, tidy=f"tidy-now/{study}/{family}")
    assert (store / f"reports/{study}/{family}/tables/trials.csv").is_file()


def test_a_reworded_sentence_changes_no_fact(store):
    for path in store.glob("data/raw/*/*/*/*/*/trial.json"):
        record = load_trial(path.parent).record
        stored = record.model_copy(update={"schema_version": 2, "cause": record.cause and "in other words"})
        again = TrialRecord.model_validate_json(stored.model_dump_json())
        assert again.failure == record.failure
        if again.failure and again.failure.cause is Cause.OOM:
            assert short_cause(Reason("in other words", again.failure.cause)) == "OOM"


def tables(folder: Path) -> dict[str, pl.DataFrame]:
    return {
        path.relative_to(folder).with_suffix("").as_posix(): pl.read_parquet(path) for path in folder.rglob("*.parquet")
    }


def different_cells(old: pl.DataFrame, new: pl.DataFrame) -> list[str]:
    """Where two tables differ, row by row in order; null equals null, and NaN equals NaN."""
    if old.schema != new.schema or old.height != new.height:
        return [f"{old.schema} in {old.height} rows became {new.schema} in {new.height}"]
    found = []
    for column in old.columns:
        differ = ~old[column].eq_missing(new[column])
        found += [f"{column}, row {row}: {old[column][row]!r} became {new[column][row]!r}" for row in differ.arg_true()]
    return found


def test_old_sentences_are_translated_to_causes_with_their_numbers(store):
    trials = {}
    for path in store.glob("data/raw/*/*/*/*/*/trial.json"):
        record = load_trial(path.parent).record
        trials[record.case] = record
    if store.name.startswith("embedded"):
        (oom,) = [record.failure for record in trials.values() if record.failure]
        assert (oom.cause, oom.limit_bytes, oom.peak_bytes, oom.killed) == (Cause.OOM, 32 << 20, 32 << 20, 1)
        return
    failures = {case: record.failure for case, record in trials.items() if record.failure}
    told = {
        (failure.cause, failure.name, failure.exit_status, failure.signal, failure.limit_bytes)
        for failure in failures.values()
    }
    assert told == {
        (Cause.TIMEOUT, "fio", 128, None, None),
        (Cause.TIMEOUT, "bash", None, 15, None),
        (Cause.SERVER_DIED, "odd", 9, None, None),
        (Cause.SERVER_DIED, "dies", None, 9, None),
        (Cause.NOT_READY, "absent", 1, None, None),
        (Cause.EXITED, "ab", 119, None, None),
        (Cause.OOM, None, None, 9, 32 << 20),
        (Cause.OOM, None, None, 9, 8 << 20),
    }
    dies = failures["server=odd,limits=none,endpoint=dies,generator=ab,concurrency=2"]
    assert dies.said == "licence of this server is over" and dies.duration_s > 0
