"""Others on a host: what the agent counts, what a session decides, what `benchstudy check` says."""

import json
import os
import re
import subprocess
import threading
import types
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from neighbour_study import Lab, Spin, neighbour
from sshd_hosts import SshdHost, host_of_its_own

from benchstudy.commands.checks import check_host
from benchstudy.measuring import disturbances
from benchstudy.measuring.neighbours import Neighbours
from benchstudy.measuring.raw import TrialStore
from benchstudy.measuring.sessionindex import is_held
from benchstudy.model import interference, registry
from benchstudy.model.errors import StudyError
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="control groups are made by root here")


@pytest.fixture
def lab(tmp_path, sshd, monkeypatch) -> Lab:
    known, get = {**registry.packages(), "spin": "neighbour_study"}, registry.get
    monkeypatch.setattr(registry, "packages", lambda: known)
    monkeypatch.setattr(registry, "get", lambda name: Spin() if name == "spin" else get(name))
    monkeypatch.setattr(Spin, "beside", None)
    return Lab(tmp_path, sshd)


# -- what is counted -------------------------------------------------------------------------------------------------


def ours_s(lab: Lab) -> float:
    readings = lab.document["commands"][0]["hosts"]["h"]["readings"]
    return readings[-1]["ours_s"] - readings[0]["ours_s"]


def used_s(lab: Lab) -> float:
    return lab.supervised["cpu_user_s"] + lab.supervised["cpu_system_s"]


def test_what_we_use_is_ours_also_of_what_ended(lab):
    lab.hold()
    assert used_s(lab) > 0.05
    assert used_s(lab) <= ours_s(lab) + 0.01 <= used_s(lab) + 0.1
    (window,) = interference.windows(lab.document).values()
    assert set(window.values) <= set(interference.METRICS)
    assert window.values["ours_cpu"] == pytest.approx(ours_s(lab) / window.seconds)
    assert window.values["controller_cpu"] > 0, "it runs on this host, and is no neighbour"


@needs_root
def test_a_control_group_also_counts_what_nobody_waited_for(lab):
    lab.hold({"nobody_waits": True, "confined": True})
    assert ours_s(lab) > used_s(lab) + 0.05, "the child works for 0.075 s at least, however slowly Python starts"


@pytest.mark.fault(31)
def test_a_neighbour_is_found_and_a_long_window_says_when(lab, monkeypatch):
    monkeypatch.setattr(Spin, "beside", neighbour)
    lab.hold({"seconds": 1.2})
    assert len(lab.document["commands"][0]["hosts"]["h"]["readings"]) > 2
    (found,) = lab.document["seen"].values()
    assert found["shares"]["others_cpu"] > 0.05 and found["busiest"]
    rows = pl.read_parquet(lab.tidy() / "hosts.parquet")
    assert rows.filter(pl.col("metric") == "others_cpu")["value"].item() > 0.2


def test_who_was_there_while_a_trial_was_only_prepared_disturbed_nothing(lab, monkeypatch):
    monkeypatch.setattr(Spin, "beside", neighbour)
    lab.hold({"prepares": True})
    prepared, measured = lab.document["commands"]
    assert (prepared["measured"], measured["measured"]) == (False, True)
    assert interference.window(prepared["hosts"]["h"]["readings"]).shares["others_cpu"] > 0.05
    (found,) = lab.document["seen"].values()
    of_measured = interference.window(measured["hosts"]["h"]["readings"], measured["hosts"]["h"]["controller"])
    assert found["seconds"] == round(of_measured.seconds, 3)
    assert found["shares"]["others_cpu"] == round(of_measured.shares["others_cpu"], 4)


def test_every_host_of_the_target_is_read_and_ours_on_one_machine_is_ours_on_all(lab, tmp_path):
    with SshdHost(tmp_path / "sshd") as second:
        described = {name: host.described(host.folder / "work") for name, host in (("h", lab.host), ("k", second))}
        lab.hold(hosts=described, targets={"t": {"roles": {"sut": "h", "load": "k"}}})
        found = interference.windows(lab.document)
    assert set(found) == {"h", "k"}
    assert min(window.values["ours_cpu"] * window.seconds for window in found.values()) > 0.9 * used_s(lab)


def test_one_case_never_has_trials_of_two_hosts(lab, tmp_path):
    with host_of_its_own(tmp_path / "second") as second:
        hosts = {"hosts": {n: h.described(h.folder / "work") for n, h in (("h", lab.host), ("other", second))}}

        def roles(**roles: str) -> dict[str, Any]:
            return {**hosts, "targets": {"t": {"roles": roles}}}

        lab.hold(**roles(sut="h", load="h"))
        assert lab.hold(**roles(sut="h", load="other"), blocks=2)["problem"] is None, "nothing ran in that role"
        studies = (lab.study(**roles(sut=sut, load="other"), blocks=2) for sut in ("h", "other"))
        same, moved = (study.session("t", "spin") for study in studies)
        assert is_held(lab.root, same) and not is_held(lab.root, moved), "pages would show the figures of h as other's"
        told = lab.hold(**roles(sut="other"), blocks=3)["problem"]
    assert "with the role sut on the host h, and the target t now gives it to other: one case would have" in told
    assert [trial.facts.block for trial in lab.trials] == [1, 2]


def test_who_measures_is_no_neighbour_by_name_either(lab, monkeypatch):
    """This very process works while the command runs on its host."""

    def work(over: threading.Event) -> None:
        with suppress(PermissionError):  # to be among the busiest on a busy machine, too
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        while not over.is_set():
            sum(range(10_000))

    @contextmanager
    def measured_by_us():
        over = threading.Event()
        working = threading.Thread(target=work, args=[over])
        working.start()
        yield
        over.set()
        working.join()

    monkeypatch.setattr(Spin, "beside", measured_by_us)
    lab.hold()
    (about,) = lab.document["commands"][0]["hosts"].values()
    assert os.getpid() in [found["pid"] for found in about["readings"][-1]["busiest"]], "the agent cannot know"
    assert os.getpid() in about["controller"][-1]["pids"]
    (window,) = interference.windows(lab.document).values()
    assert os.getpid() not in [found["pid"] for found in window.busiest]


def test_a_kernel_thread_that_began_after_processes_were_listed_is_not_counted_yet(agent, tmp_path, monkeypatch):
    import accounts
    import interference as readings
    import kernel

    began = 1 << 22  # no process has this number
    list_children = kernel.children
    monkeypatch.setattr(kernel, "LISTS_CHILDREN", True)
    monkeypatch.setattr(kernel, "children", lambda pid: [*list_children(pid), *([began] if pid == 2 else [])])
    reader = readings.Reader(accounts.Accounts(str(tmp_path)))
    reader.begin()
    reader.end()
    assert began not in reader._kernels and len(reader.readings) == 2


def test_a_reading_inside_the_window_opens_nothing_and_sees_who_began(agent, tmp_path, monkeypatch):
    import accounts
    import interference as readings

    books = accounts.Accounts(str(tmp_path))
    books.open()
    reader = readings.Reader(books)
    reader.begin()
    reader.point()
    opened: list[str] = []
    monkeypatch.setattr(os, "open", lambda path, *flags: opened.append(path) or open_file(path, *flags))
    monkeypatch.setattr(os, "listdir", lambda path: opened.append(path) or list_folder(path))
    reader.point()
    assert [path for path in opened if not re.fullmatch(r"/proc(/\d+/stat)?", path)] == [books.folder]
    with subprocess.Popen(["sleep", "60"]) as child:
        reader.point()
        child.kill()
    reader.point()
    reader.end()
    first, *within, last = reader.readings
    assert {found["others_s"] for found in within} == {None} and first["others_s"] <= last["others_s"]
    ours = [found["ours_pids"] for found in (first, *within)]
    assert [child.pid in pids for pids in ours] == [False, False, False, True, False]
    assert all(os.getpid() in pids for pids in ours)


open_file, list_folder = os.open, os.listdir


def test_a_reading_takes_no_time_worth_the_name(lab):
    lab.hold()
    costs = [r["cost_s"] for r in lab.document["commands"][0]["hosts"]["h"]["readings"]]
    assert max(costs) < 0.05, "processor time; benchmarks/interference.py has it to the microsecond"


@pytest.mark.parametrize(
    ("declared", "told", "end"),
    [({}, "busy", ""), ({"disturbance": {"limit": "100%"}}, True, ", within the study's limit of 100 %")],
)
def test_check_says_that_somebody_uses_the_host(lab, declared, told, end):
    study = lab.study(**declared)
    with neighbour():
        said = [(fine, text) for fine, text, _ in check_host(study, "h", study.sessions()) if "processors" in text]
    ((fine, text),) = said
    assert fine == told and text.startswith("other programs use ") and text.endswith(end)


# -- what is decided -------------------------------------------------------------------------------------------------

REPEAT = {"disturbance": {"limit": "20 %", "then": "repeat", "at_most": 2}}


@pytest.fixture
def shares(monkeypatch) -> list[float]:
    """What others use during each trial in turn; during all further trials, nothing."""
    script: list[float] = []

    def seen(document: Any) -> dict[str, Any]:
        share = script.pop(0) if script else 0.0
        about = {"others_cpu": 2 * share, "cpus": 2, "seconds": 1.0, "busiest": ["backup"]}
        about |= {"peak_cpu": None, "peak_at": None}
        return {"h": {"shares": {"others_cpu": share, "steal": 0.0}, **about}}

    monkeypatch.setattr(interference, "seen", seen)
    return script


def placed(lab: Lab) -> list[tuple[int, int]]:
    return sorted((t.record.block, t.record.position) for t in lab.trials)


def test_a_disturbed_trial_is_repeated_in_its_block_and_figures_are_of_the_undisturbed_one(lab, shares):
    shares += [0.5, 0.3]
    index = lab.hold(blocks=2, **REPEAT)
    assert placed(lab) == [(1, 1), (1, 1), (1, 1), (2, 1)]
    first, second, third, _ = sorted(lab.trials, key=lambda trial: trial.record.started)
    assert index["disturbance"]["repeated"] == {t.record.uuid: third.record.uuid for t in (first, second)}
    assert [t.record.block for t in (first, second, third)] == [1, 1, 1], "before the next block begins"
    results = Results(lab.tidy(blocks=2, **REPEAT), study="s", family="spin")
    assert third.short in (counted := set(results.counted["trial"])) and not {first.short, second.short} & counted
    assert (results.counts()["repeated"], results.counts()["disturbed"]) == (2, 0)
    told = disturbed.rule(results, [index])
    assert "20 % of a host's processors" in told and told.endswith(
        "0 trials could not be checked. 2 further disturbed trials were set aside and measured again."
    )
    assert "block 1: other work disturbed load=half: measuring again" in str(index["sessions"][0]["events"])
    assert lab.hold(blocks=2, **REPEAT) == index, "the same again asks no host"


def test_repeats_end_and_what_stands_then_is_marked(lab, shares):
    shares += [0.5] * 9
    index = lab.hold(**REPEAT)
    assert len(lab.trials) == 3
    assert lab.hold(**REPEAT) == index
    results = Results(lab.tidy(**REPEAT), study="s", family="spin")
    assert (results.counts()["repeated"], results.counts()["disturbed"]) == (2, 1)


def test_looks_count_a_repeated_trial_once_and_a_disturbed_one_when_its_repeats_are_used_up(lab, shares):
    adaptive = {"blocks": {"min": 6, "max": 9}, "until": "5 %", **REPEAT}
    shares += [0.5, 0.5, 0.5, 0.5]  # three in block 1, the last of which counts, and one in block 2
    index = lab.hold({"seconds": 0.01}, **adaptive)
    assert [block for block, _ in placed(lab)] == [1, 1, 1, 2, 2, 3, 4, 5, 6], "6 blocks were enough"
    (look,) = TrialStore(lab.store).looks()
    (seen,) = look["cases"].values()
    trials = {trial.record.uuid: trial for trial in lab.trials}
    standing = [trials[uuid] for uuid in seen["trials"]]
    assert [trial.record.block for trial in standing] == [1, 2, 3, 4, 5, 6]
    assert [known["n"] for known in seen["known"]] == [6]
    assert set(index["disturbance"]["repeated"]) == trials.keys() - set(seen["trials"])
    policy = lab.study(**REPEAT).disturbance
    assert [policy.disturbed(disturbances.seen(trial)) is not None for trial in standing] == [True, *[False] * 5]
    assert lab.hold({"seconds": 0.01}, **adaptive) == index, "what was seen decides, and no host is asked"


def test_marking_measures_nothing_again_and_no_later_code_does(lab, shares, monkeypatch):
    shares += [0.5]
    index = lab.hold()
    (trial,) = lab.trials
    results = Results(lab.tidy(), study="s", family="spin")
    assert results.disturbed[trial.short].busiest == ("backup",)
    monkeypatch.setattr(interference, "seen", lambda document: pytest.fail("what was seen is stored"))
    monkeypatch.setattr(interference, "windows", lambda document: {})
    assert lab.hold() == index
    assert Results(lab.tidy(), study="s", family="spin").disturbed == results.disturbed
    assert lab.hold(disturbance={"limit": "60 %", "then": "repeat"})["sessions"] == index["sessions"]


def test_a_limit_that_was_changed_later_is_the_one_that_is_told_and_the_change_is_a_weakness(lab, shares):
    shares += [0.5]
    index = lab.hold()
    told = disturbed.rule(Results(lab.tidy(), study="s", family="spin"), [index])
    assert "may take 5 % of" in told and "changed" not in told and "disturbed 1 of 1 trial;" in told
    looser = Results(lab.tidy(disturbance={"limit": "60 %"}), study="s", family="spin")
    told = disturbed.rule(looser, [index])
    assert "may take 60 % of" in told and "disturbed 0 of 1 trial;" in told
    assert disturbed.weaknesses(looser, [index]) == [
        "The limit on other work was changed after the measurement, from 5 % to 60 %, which marks other trials."
    ]


def test_the_plan_changes_with_the_rule_that_repeats_and_an_old_study_stays_what_it_was(lab):
    def digest(spin=None, **changes):
        return lab.study(spin, **changes).session("t", "spin").digest

    assert digest() == digest(disturbance={"limit": "9 %"})
    assert len({digest(), digest(**REPEAT), digest(disturbance={"limit": "9 %", "then": "repeat"})}) == 3
    assert digest({"disturbance": REPEAT["disturbance"]}) == digest(**REPEAT)
    assert lab.study().sha256 != lab.study(disturbance={"limit": "5 %"}).sha256
    assert "disturbance" not in lab.study().model_dump(exclude_none=True)


@pytest.mark.parametrize("limit", ["5", 0, "200 %", True])
def test_a_limit_that_is_no_share_is_refused(lab, limit):
    with pytest.raises(StudyError, match=r"disturbance\.limit: .* is not a limit: write the share"):
        lab.study(disturbance={"limit": limit})


# -- what kernels write ----------------------------------------------------------------------------------------------

STAT = ["cpu  1000 10 500 8000 200 5 15 30 0 0", "cpu0 1 2 3 4", "cpu1 1 2 3 4", "intr 1 2", "procs_running 3"]
DISK = "   8       0 sda 100 5 2000 40 300 7 4000 90 0 1500 130"


@pytest.fixture
def agent(monkeypatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "src" / "benchstudy" / "agent"))
    import kernel as module

    return module


def test_counters_as_kernels_of_several_ages_write_them(agent):
    found = agent.times(STAT)
    assert (found["cpus"], found["running"]) == (2, 3)
    seconds = {name: found[name] * agent.TICKS for name in ("busy_s", "idle_s", "interrupts_s", "steal_s")}
    assert seconds == pytest.approx({"busy_s": 1530, "idle_s": 8200, "interrupts_s": 20, "steal_s": 30})
    assert agent.pressure(["some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000", "full total=1"]) == 2.5
    assert agent.pressure([]) is None, "a kernel without pressure"
    before_flushes = agent.disks([DISK])
    assert before_flushes == {
        "sda": {
            "reads": 100, "read_bytes": 2000 * 512, "writes": 300, "written_bytes": 4000 * 512, "busy_s": 1.5,
            "flushes": None,
        }
    }  # fmt: skip
    assert agent.disks([f"{DISK} 0 0 0 0 42 7"])["sda"]["flushes"] == 42
    assert agent.interfaces(["  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0"]) == {
        "eth0": {"received_bytes": 10, "sent_bytes": 20}
    }
    assert not agent.is_real("net", "lo") and not agent.is_real("block", "loop0"), "the same bytes pass once more"


# -- what sessions make of it ------------------------------------------------------------------------------------------


def reading(at: float, **changes: Any) -> dict[str, Any]:
    disk = {"reads": 0, "read_bytes": 0, "writes": 0, "written_bytes": 0, "busy_s": 0.0, "flushes": 0}
    return {
        "cpus": 2, "monotonic": at, "busy_s": 0.0, "idle_s": 0.0, "steal_s": 0.0, "kernel_s": 0.0, "ours_s": 0.0,
        "others_s": 0.0, "resolution_s": 0.02, "ours_io": {"read_bytes": 0, "write_bytes": 0}, "running": 1,
        "pressure": {"cpu": None, "io": 0.0, "memory": None}, "disks": {"sda": disk | changes.pop("disk", {})},
        "interfaces": {}, "available_bytes": None, "dirty_bytes": 0, "swapped_bytes": None, "clock_hz": None,
        "throttled": None, **changes,
    }  # fmt: skip


def shares_of(**last: Any) -> dict[str, float]:
    return dict(interference.window([reading(0.0), reading(1.0, **last)]).shares)


def test_what_is_neither_ours_nor_the_kernels_is_others():
    assert shares_of(busy_s=1.5, idle_s=0.5, ours_s=1.2, kernel_s=0.3)["others_cpu"] == 0
    found = shares_of(busy_s=1.5, idle_s=0.5, ours_s=1.0)
    assert found["others_cpu"] == pytest.approx((0.5 - 0.02) / 2), "less what the counters may be off"
    assert shares_of(busy_s=1.0, idle_s=0.5, ours_s=1.0)["others_cpu"] == 0, "leaving idleness is nobody's work"
    assert shares_of(idle_s=1.9, others_s=0.1)["others_cpu"] == 0.05, "of those that live it is known exactly"
    assert shares_of(idle_s=1.5, steal_s=0.5)["steal"] == pytest.approx(0.24)


def test_a_neighbour_that_came_and_went_is_told_with_the_time():
    readings = [reading(float(t), busy_s=used, idle_s=2.0 * t - used, wall=1.8e9 + t)
                for t, used in enumerate((0.0, 0.0, 0.0, 1.8, 1.8))]  # fmt: skip
    assert interference.window(readings).peak == (pytest.approx(1.8), 1.8e9 + 2)
    kept = {"h": [{"boot_id": None, "controller": None, "readings": readings}]}
    document = {"commands": [{"hosts": {name: about for name, (about,) in kept.items()}}]}
    told = disturbed.told(interference.worst(interference.seen(document)))
    assert told == "other programs used 0.45 of 2 processors of h, 1.8 from 2027-01-15 08:00:02 UTC on"


def test_the_controller_and_our_other_host_on_this_machine_are_no_neighbours():
    busy = [reading(0.0), reading(1.0, busy_s=1.5, idle_s=0.5, ours_s=0.5, others_s=1.0)]
    assert interference.window(busy).shares["others_cpu"] == 0.5
    assert interference.window(busy, controller=({"cpu_s": 3.0}, {"cpu_s": 3.4})).shares["others_cpu"] == pytest.approx(
        0.3
    )
    other = [reading(0.0), reading(1.0, ours_s=1.0)]
    assert interference.window(busy, same_kernel=[other]).shares["others_cpu"] == 0


def test_traffic_beyond_that_of_the_trials_other_hosts_is_others():
    def window_of(received: int, sent: int) -> list[dict[str, Any]]:
        cards = [{"eth0": {"received_bytes": 5 + n * received, "sent_bytes": 7 + n * sent}} for n in (0, 1)]
        return [reading(2.0 * n, interfaces=card) for n, card in enumerate(cards)]

    server, load = window_of(8000, 2000), window_of(1500, 5500)
    found = interference.window(server, others=[load]).values
    assert (found["host_network"], found["others_network"]) == (5000.0, 1500.0)
    assert interference.window(load, others=[server]).values["others_network"] == 0
    assert interference.window(server).values["others_network"] == 5000.0, "one host talks to itself over no card"
    document = {"commands": [{"hosts": {"a": {"readings": server}, "b": {"readings": load}}}]}
    for about in document["commands"][0]["hosts"].values():
        about |= {"boot_id": None, "controller": None}
    assert interference.windows(document)["a"].values["others_network"] == 1500.0
    assert "host_network" not in interference.window([reading(0.0), reading(1.0)]).values, "a host without a card"


def test_a_disk_is_anothers_for_its_busy_time_times_the_share_of_bytes():
    disk = {"read_bytes": 30 << 20, "written_bytes": 10 << 20, "busy_s": 0.8}
    ours = {"read_bytes": 30 << 20, "write_bytes": 10 << 20}
    assert shares_of(disk=disk, ours_io=ours)["others_disk"] == 0
    assert shares_of(disk=disk, ours_io=ours | {"read_bytes": 10 << 20})["others_disk"] == pytest.approx(0.4)
    faults = (
        {"cpu_s": 0.0, "read_bytes": 0, "write_bytes": 0},
        {"cpu_s": 0.0, "read_bytes": 20 << 20, "write_bytes": 0},
    )
    window = [reading(0.0), reading(1.0, disk=disk, ours_io=ours | {"read_bytes": 10 << 20})]
    assert interference.window(window, faults).shares["others_disk"] == 0, "the controller's own pages were read again"
    journal = disk | {"written_bytes": 12 << 20, "flushes": 64}
    assert shares_of(disk=journal, ours_io=ours)["others_disk"] == 0, "a journal writes for us"
    assert "others_disk" not in shares_of(disk=disk, ours_io=None), "what we did is not known"


def test_the_busy_time_of_a_disk_wraps_after_50_days():
    used = {"read_bytes": 1 << 30, "busy_s": 42.704}
    readings = [reading(0.0, disk={"busy_s": 4294960.0}), reading(100.0, disk=used)]
    assert interference.window(readings).shares["others_disk"] == pytest.approx(0.5)


def test_counters_that_began_anew_make_no_figure_negative():
    card = {"received_bytes": 8 << 30, "sent_bytes": 2 << 30}
    disk = {"reads": 9, "read_bytes": 1 << 30, "writes": 9, "written_bytes": 1 << 30, "busy_s": 300.0, "flushes": 9}
    readings = [
        reading(0.0, disk=disk, interfaces={"eth0": card}),
        reading(1.0, disk={"read_bytes": 1 << 20, "busy_s": 0.5}, interfaces={"eth0": card | {"sent_bytes": 0}}),
    ]
    found = interference.window(readings)
    assert min(found.values.values()) >= 0 and min(found.shares.values()) >= 0, found
    assert found.values["host_network"] == 0


def test_neither_the_controller_nor_our_other_host_is_named_among_the_busiest():
    """Their time and their names are left out; the next busiest process is reported instead."""
    names = {1: "python", 2: "snakemake", 3: "sftpgo", 4: "backup"}
    busiest = [{"name": name, "pid": pid, "cpu_s": 0.5 - pid / 10} for pid, name in names.items()]
    readings = [reading(0.0), reading(1.0, busy_s=1.5, idle_s=0.5, others_s=1.0, busiest=busiest)]
    controller = [{"cpu_s": 0.0, "pids": [1, 2]}, {"cpu_s": 0.7, "pids": [1, 2]}]
    here = {"boot_id": "b", "controller": controller, "readings": readings}
    there = {"boot_id": "b", "controller": None, "readings": [reading(0.0), reading(1.0, ours_pids=[3])]}
    kept = interference.seen({"commands": [{"hosts": {"h": here, "k": there}}]})
    assert kept["h"]["busiest"] == ["backup"]


@pytest.mark.parametrize(("name", "value"), [("interfaces", ["eth0"]), ("monotonic", "soon"), ("cpus", None)])
def test_counters_in_an_unknown_form_cost_no_trial(agent, tmp_path, name, value):
    import accounts
    import interference as counters

    books = accounts.Accounts(str(tmp_path))
    books.open()
    reader = counters.Reader(books)
    reader.begin()
    reader.end()
    readings = [reading | {name: value} for reading in reader.readings]
    neighbours = Neighbours({"here": types.SimpleNamespace(boot_id="boot")})
    with neighbours.around("run", "here", measured=True) as take:
        take(readings)
    neighbours.keep(tmp_path)
    kept = json.loads((tmp_path / interference.FILE).read_text())
    assert kept["seen"] == {}, "what others did is unknown"
    assert len(kept["commands"][0]["hosts"]["here"]["readings"]) == 2, "the file has what was read"
