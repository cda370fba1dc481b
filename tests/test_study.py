"""The study model: what it refuses, with which message, and that cases and order never change by themselves."""

import copy

import pytest
from load_test_study import SOURCE, scraped

from benchstudy.measuring.schedule import schedule
from benchstudy.model import paths
from benchstudy.model.errors import StudyError
from benchstudy.model.services import Ready
from benchstudy.model.stopping import BlockRange
from benchstudy.model.study import _LONGEST_LEASE_S
from benchstudy.model.studyfile import load_study, parse_study
from benchstudy.model.units import Size, parse_duration

STUDY = {
    "study": "small",
    "hosts": {"local": {"loopback": True}},
    "targets": {"one": {"roles": {"sut": "local"}}},
    "families": {
        "file_size": {
            "backends": [{"name": "disk", "kind": "path", "path": "/var/tmp"}],
            "sizes": ["100KB", "1MiB"],
        }
    },
}

CEILING = {"family": "file_size", "op": "read", "source": "data sheet"}
FIO = {"directories": [{"name": "disk", "path": "/var/tmp"}]}


def changed(*path, to):
    study = copy.deepcopy(STUDY)
    place = study
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return study


@pytest.mark.parametrize(
    ("study", "says"),
    [
        (changed("blokcs", to=3), 'blokcs: unknown key: did you mean "blocks"?'),
        (changed("hosts", "local", "usr", to="x"), 'hosts.local.usr: unknown key: did you mean "user"?'),
        (changed("families", "file_sise", to={}), "unknown family 'file_sise': did you mean \"file_size\"?"),
        (changed("thresholds", to={"margin": "0%"}), "thresholds.margin: '0%' is not a margin"),
        (changed("thresholds", to={"margin": "400%"}), "write a difference above 0 and below 100 %"),
        (changed("thresholds", to={"margin": 5}), 'such as "5%"'),
        (changed("thresholds", to={"margins": {"fo": "3%"}}), "'fo' names no family: did you mean \"fio\"?"),
        (changed("thresholds", to={"margins": {"fio/": "3%"}}), "names no metric after the slash"),
        (changed("thresholds", to={"margins": {"fio/read_iop": "3%"}}), 'no such metric: did you mean "read_iops"?'),
        (changed("hosts", "local", to={"address": "../../x"}), "hosts.local.address: '../../x' cannot be a host"),
        (changed("hosts", "local", to={"address": "x;id"}), "hosts.local.address: 'x;id' has ';', which a shell would"),
        (changed("hosts", "local", to={"user": "$(id)"}), "hosts.local.user: '$(id)' has '(', which a shell"),
        (changed("hosts", "local", to={"address": "x" * 70}), "cannot be a host: write its name, its address"),
        (changed("hosts", "local", to={"address": "db1:2222"}), "write `address: db1` and `port: 2222`"),
        (changed("hosts", "local", to={"address": "[::1]:2222"}), "write `address: ::1` and `port: 2222`"),
        (changed("hosts", "local", to={"address": "[::1]"}), "'[::1]' has brackets: write `address: \"::1\"`"),
        (changed("hosts", "local", to={"address": "a@[::1]"}), 'has brackets: write `address: "a@::1"`'),
        (changed("hosts", "local", to={"service_address": "db1:80"}), "a port in it: write `service_address: db1`"),
        (changed("hosts", "local", to={"address": "a", "identity_file": "\0"}), "hosts.local.identity_file: "),
        (
            changed("families", "file_size", "sises", to=["1MB"]),
            'families.file_size.sises: unknown key: did you mean "sizes"?',
        ),
        (
            changed("families", "file_size", "backends", 0, "pth", to="/x"),
            'pth: unknown key: did you mean "path"?',
        ),
        (changed("families", "file_size", "sizes", to=["100"]), "is not a size"),
        (changed("families", "file_size", "sizes", to=[100]), "has no unit"),
        (changed("families", "file_size", "timeout", to=30), "is not a duration"),
        (changed("families", "file_size", "timeout", to=30.0), "families.file_size.timeout: 30.0 is not a duration"),
        (changed("families", "file_size", "timeout", to=-2.5), "families.file_size.timeout: -2.5 is not a duration"),
        (changed("families", "file_size", "timeout", to="0s"), "families.file_size.timeout: give a time above zero"),
        (
            changed(
                "families",
                "file_size",
                "services",
                to={"a": {"argv": ["a"], "setup_timeout": "0s", "ready": {"file": "x"}}},
            ),
            "families.file_size.services.a.setup_timeout: give a time above zero",
        ),
        (
            changed("families", "file_size", "services", to={"a": {"argv": ["a"], "ready": {"http": "{{bind}}:80/"}}}),
            "families.file_size.services.a.ready.http: '{{bind}}:80/': write an address that begins with http:// or",
        ),
        (changed("families", "file_size", "blocks_apart", to=3.0), "families.file_size.blocks_apart: 3.0 is not"),
        (changed("blocks_apart", to=-3.0), "blocks_apart: -3.0 is not a duration"),
        (changed("thresholds", to={"reconnect": -5.0}), "thresholds.reconnect: -5.0 is not a duration"),
        (changed("thresholds", to={"lease": "25d"}), "thresholds.lease: give 1 s to 86400 s"),
        (
            changed("families", "file_size", "backends", 0, "name", to=["disk"]),
            "name: ['disk']: write text",
        ),
        (
            changed(
                "families", "file_size", "backends", to=[{"name": 1, "kind": "path"}, {"name": "a", "same_as": "x"}]
            ),
            "backend a: same_as: there is no backend 'x'",
        ),
        (changed("families", "file_size", "backends", 0, "same_as", to=["disk"]), "there is no backend ['disk']"),
        (changed("targets", "one", "roles", "sut", to="locl"), "no host 'locl': did you mean \"local\"?"),
        (changed("families", "file_size", "targets", to=["two"]), "no target 'two'"),
        (changed("families", "file_size", "targets", to=[]), "file_size.targets: it is empty: give at least 1"),
        (changed("families", "file_size", "targets", to=["one"] * 2), "file_size.targets: targets: the name 'one' is"),
        (changed("ceilings", to=[{**CEILING, "rate": 125.0}]), "ceilings.0.rate: 125.0 is not a rate of bytes"),
        (changed("ceilings", to=[{**CEILING, "rate": "0B/s"}]), "ceilings.0.rate: give a rate above zero"),
        (changed("families", to={"fio": {**FIO, "size": "0B"}}), "families.fio.size: give a size above zero"),
        (
            changed("families", to={"fio": {**FIO, "jobs": [{"name": "a", "rw": "read", "bs": "0B"}]}}),
            "families.fio.jobs.0.bs: give a size above zero",
        ),
        (changed("families", to={"fio": {**FIO, "runtime": "0s"}}), "families.fio.runtime: give a time above zero"),
        (
            changed("targets", "one", "roles", to={"sot": "local"}),
            "file_size needs the role 'sut': is it misspelt as \"sot\"?",
        ),
        (
            changed("families", to={"command": {"commands": [{"name": "true", "argv": ["true"], "role": "lod"}]}}),
            "targets.one.roles: families.command.commands.true needs the role 'lod': known: sut",
        ),
        (
            changed("families", to={"command": {"commands": [{"name": "a", "argv": ["a"], "matrix": {"n": [1, 1]}}]}}),
            "families.command.commands.0.matrix.n: levels: the name '1' is given twice: keep one, or rename one",
        ),
        (
            changed("families", to={"fio": {**FIO, "jobs": [{"name": "a", "rw": "read", "bs": "4KiB"}] * 2}}),
            "job=a is described twice: keep one, or rename one",
        ),
        (
            changed("families", to={"load_test": scraped(sources=[{**SOURCE, "role": "sud"}])}),
            "targets.one.roles: families.load_test.sources.grafana needs the role 'sud': did you mean \"sut\"?",
        ),
        (changed("blocks", to=0), "blocks: "),
        (changed("measure", to="perhaps"), "measure: "),
        (changed("study", to="index.html"), "study: 'index.html' is what a file or folder of reports/ is called"),
        (changed("study", to="comparisons"), "study: 'comparisons' is what a file or folder of reports/ is called"),
        (changed("study", to="tiny.crate.zip"), "study: 'tiny.crate.zip' is what a file or folder of reports/"),
        # The zip file of its reports would be the crate of study `tiny`.
        (changed("study", to="tiny.crate"), "study: 'tiny.crate' is what a file or folder of reports/ is called"),
        (changed("study", to="tiny.pdf"), "study: 'tiny.pdf' is what a file or folder of reports/ is called"),
        (changed("hosts", "local", "work_dir", to="/"), "hosts.local.work_dir: "),
        (changed("hosts", "local", "work_dir", to="~"), "hosts.local.work_dir: "),
        (changed("hosts", "local", "work_dir", to="/srv/x/../.."), "without '..'"),
        (changed("hosts", "local", "port", to=22), "loopback: true brings its own sshd"),
        (changed("hosts", "local", to={"address": "-oProxyCommand=x"}), "hosts.local.address: "),
        (changed("families", "file_size", "backends", 0, "kind", to="nfs"), "families.file_size.backends.0"),
    ],
)
def test_a_wrong_field_is_named_with_its_fix(study, says):
    with pytest.raises(StudyError) as error:
        parse_study(study)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "name", ["; rm -rf", "$(reboot)", "a\nb", "-rf", "../x", "ü", "", "a..b", "x" * 65, "<script>"]
)
@pytest.mark.fault(22)
def test_a_hostile_name_is_refused_wherever_a_name_stands(name):
    places = [
        changed("study", to=name),
        changed("hosts", to={name: {"loopback": True}}),
        changed("targets", to={name: {"roles": {"sut": "local"}}}),
        changed("families", "file_size", "backends", 0, "name", to=name),
    ]
    for study in places:
        with pytest.raises(StudyError):
            parse_study(study)


@pytest.mark.parametrize(("text", "value"), [("false", False), ("no", False), ("true", True), (False, False)])
def test_booleans_from_the_command_line_are_not_truthy_strings(text, value):
    assert parse_study(changed("measure", to=text)).measure is value


@pytest.mark.parametrize("address", ["::1", "fe80::1%eth0", "me@2001:db8::7", "db1"])
def test_an_ipv6_address_has_no_port_in_it(address):
    host = parse_study(changed("hosts", "local", to={"address": address})).hosts["local"]
    assert host.address == address


def test_numbers_in_a_range_of_blocks_from_the_command_line_are_texts():
    study = changed("blocks", to={"min": "6", "max": "30"}) | {"until": "5 %"}
    blocks = parse_study(study).blocks
    assert isinstance(blocks, BlockRange) and (blocks.min, blocks.max) == (6, 30)


def test_decimal_and_binary_sizes_are_kept_apart():
    assert Size("100MB").bytes == 100_000_000
    assert Size("100MiB").bytes == 104_857_600
    assert Size("1.5 GiB") == "1.5GiB"
    assert parse_duration("1.5min") == 90.0


@pytest.mark.parametrize(("unit", "factor"), [("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12)])
def test_a_size_with_one_decimal_is_a_whole_number_of_bytes(unit, factor):
    for tenths in range(1, 10_000):
        assert Size(f"{tenths // 10}.{tenths % 10}{unit}").bytes == tenths * factor // 10


def test_the_schedule_is_the_same_each_time_and_adding_a_block_changes_no_other():
    def order(study):
        (plan,) = parse_study(study).sessions()
        return [(s.block, s.position, s.case.id) for s in schedule(plan)]

    six = order(STUDY)
    assert order(STUDY) == six
    assert order(changed("blocks", to=7))[: len(six)] == six
    assert order(changed("seed", to=2)) != six
    blocks = [[case for block, _, case in six if block == b] for b in range(1, 7)]
    assert len({tuple(block) for block in blocks}) > 1, "each block has an order of its own"
    assert len({frozenset(block) for block in blocks}) == 1, "every block has every case"


def test_the_plan_changes_with_the_trials_that_must_exist_and_with_nothing_else():
    def digest(study):
        return parse_study(study).sessions()[0].digest

    assert digest(changed("title", to="another title")) == digest(STUDY)
    assert digest(changed("measure", to=False)) == digest(STUDY)
    assert digest(changed("blocks", to=7)) != digest(STUDY)
    assert digest(changed("families", "file_size", "sizes", to=["100KB", "1MB"])) != digest(STUDY)


def test_a_key_written_twice_is_refused(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("study: x\nblocks: 3\nblocks: 6\n")
    with pytest.raises(StudyError, match=r"study.yaml: line 3: the key 'blocks' occurs twice"):
        load_study(path)


def test_a_missing_file_and_broken_yaml_say_so(tmp_path):
    with pytest.raises(StudyError, match="there is no such study file"):
        load_study(tmp_path / "none.yaml")
    (tmp_path / "broken.yaml").write_text("study: [")
    with pytest.raises(StudyError, match="not valid YAML"):
        load_study(tmp_path / "broken.yaml")


def test_margins_are_by_metric_before_family_before_study_and_part_of_the_hash():
    margins = {"file_size": "10%", "file_size/throughput": "2.5 %"}
    study = parse_study(changed("thresholds", to={"margin": "4%", "margins": margins}))
    found = [study.thresholds.margin_of(*of) for of in (("fio", "x"), ("file_size", "x"), ("file_size", "throughput"))]
    assert found == [0.04, 0.1, 0.025]
    assert study.sha256 != parse_study(STUDY).sha256
    assert parse_study(study.model_dump(mode="json", serialize_as_any=True), stored=True).sha256 == study.sha256


@pytest.mark.parametrize("seconds", [-2.5, float("nan"), float("inf")])
def test_a_stored_study_and_code_have_durations_in_seconds_and_none_that_cannot_be(seconds):
    assert Ready(file="x", timeout=2.5).timeout == 2.5
    assert parse_study(changed("blocks_apart", to=2.5), stored=True).blocks_apart == 2.5
    with pytest.raises(StudyError, match="blocks_apart: "):
        parse_study(changed("blocks_apart", to=seconds), stored=True)


def test_the_longest_lease_is_the_longest_that_the_agent_believes():
    assert (
        f"\n_LONGEST_LEASE_S = {_LONGEST_LEASE_S} " in (paths.shipped() / "src/benchstudy/agent/keeper.py").read_text()
    )


def test_what_stands_out_is_declared_and_plans_no_measurement():
    def study(**changes):
        hosts = {"hosts": {"h": {"loopback": True}}, "targets": {"t": {"roles": {"sut": "h"}}}}
        fio = {"directories": [{"name": "d", "path": "/srv"}]}
        return parse_study({"study": "s", **hosts, "families": {"fio": fio}, **changes})

    plain, median, mean = study(), study(stands_out="median"), study(stands_out="mean")
    assert plain.sha256 == median.sha256 != mean.sha256
    assert plain.session("t", "fio").digest == mean.session("t", "fio").digest
    with pytest.raises(StudyError, match="stands_out: "):
        study(stands_out="mode")
