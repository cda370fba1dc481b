"""Messages about a wrong study: the field, the problem, and what to write, before any host is contacted."""

import copy
import json
import math
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from conftest import as_project
from stored_study import STUDY, StoredStudy

from benchstudy.commands.cli import main
from benchstudy.measuring.raw import TrialStore
from benchstudy.model.errors import StudyError
from benchstudy.model.studyfile import in_file, load_study, parse_study, with_systems

# As if it described its services itself.
EMBEDDED = with_systems(yaml.safe_load((Path(__file__).parent.parent / "config" / "config.yaml").read_text()))
FILE_SIZE = "families.file_size.services"
EXPORT = ["export", "README.md", "--start", "2024-09-10T10:00:00Z", "--end", "2024-09-10T11:00:00Z"]
# Each line contains the previous one nine times.
ALIASES = "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghi"))


def changed(path: str, value: object) -> dict:
    """The embedded study with the value at `path` (dots; numbers are places in lists) replaced."""
    study = copy.deepcopy(EMBEDDED)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    inner = study
    for part in way:
        inner = inner[part]
    inner[last] = value
    return study


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (f"{FILE_SIZE}.sshfs.needs", ["openshs"], "sshfs.needs: no service 'openshs': did you mean \"openssh\"?"),
        (
            f"{FILE_SIZE}.sshfs.needs",
            [],
            f"{FILE_SIZE}.sshfs.argv: {{{{openssh.dir}}}} is not available here: add openssh",
        ),
        (f"{FILE_SIZE}.openssh.needs", ["sshfs"], f"{FILE_SIZE}.openssh.needs: openssh needs itself, through sshfs"),
        (f"{FILE_SIZE}.rclone-s3.ready", {"tcp": "s33"}, f"{FILE_SIZE}.rclone-s3.ready.tcp: no port 's33' in ports"),
        (f"{FILE_SIZE}.rclone-s3.env", {"K": "{{secret.acces}}"}, 'did you mean "secret.access_key"?'),
        (f"{FILE_SIZE}.rclone-s3.argv", ["rclone serve"], "rclone-s3.argv: 'rclone serve' is a command line, not a"),
        (f"{FILE_SIZE}.rclone-s3.setup", [[""]], "rclone-s3.setup.0: the name of the program is empty"),
        (f"{FILE_SIZE}.sshfs.stop", [], "sshfs.stop: it is empty: give at least 1"),
        (f"{FILE_SIZE}.rclone-s3.env", {"A-B": "1"}, "env: 'A-B' cannot be an environment variable"),
        (f"{FILE_SIZE}.rclone-s3.env", {"A": "\0"}, "no program can receive a NUL character"),
        (f"{FILE_SIZE}.rclone-s3.files", {"../x": ""}, "'../x' must be a path below the service's own folder"),
        ("targets.this-machine.roles", {"stu": "local"}, "targets.this-machine.roles: families.file_size.services."),
        ("seed", "abc", "seed: 'abc': write a whole number"),
        ("seed", True, "seed: true: write a whole number"),
        ("hosts", {"local": {"port": "22"}}, "hosts.local.port: '22': write a whole number"),
        ("blocks", "6", "blocks: '6': write a number of blocks"),
        ("blocks", {"min": 6, "max": 30.0}, "blocks: max: 30.0: write a whole number"),
        ("families.fio.jobs", [{"name": "x", "rw": "read", "iodepth": 4.0}], "jobs.0.iodepth: 4.0: write a whole"),
        ("families.file_size.operations", True, "families.file_size.operations: true: write a whole number"),
        ("families.http_concurrency.concurrency", [1, "2"], "http_concurrency.concurrency.1: '2': write a whole"),
        ("families.log_write.rates", [500], "families.log_write.rates.0: '500' is not a rate: write it as \"200/s\""),
        ("families.log_write.search", {"factor": True}, "families.log_write.search.factor: true: write a number"),
        ("families.load_test.behaviour.workers", "2", "families.load_test.behaviour.workers: '2': write a whole"),
        (
            "families.command",
            {"commands": [{"name": "x", "argv": ["x"], "expect": {"exit": 0.0}}]},
            "commands.0.expect.exit.0: 0.0: write a whole number",
        ),
        ("hosts.local", None, "hosts.local: nothing is given: write a mapping"),
        ("hosts.local.loopback", "maybe", "hosts.local.loopback: 'maybe': write true or false"),
        ("families.fio.directories", [], "families.fio.directories: it is empty: give at least 1"),
        ("families.fio.jobs", [{"name": "x", "rw": "raed"}], "families.fio.jobs.0.rw: 'raed': write 'read', 'write'"),
        ("families.file_size.backends.0.kind", "pth", "backends.0: kind: 'pth': write 'path' or 's3'"),
        (
            "families.file_size.backends.2",
            {"name": "s3", "kind": "s3", "bucket": "My_Files"},
            "backends.2.s3.bucket: 'My_Files': write 3 to 63 characters out of a-z, 0-9, . and -, with a letter",
        ),
        (
            "families.load_test.system",
            {"version": {"path": "api/v4", "key": "Version"}},
            "families.load_test.system.version.path: 'api/v4': write a path that begins with /",
        ),
        ("families.log_write.search", {"factor": math.inf}, "families.log_write.search.factor: inf: write a finite"),
        (
            "families.command",
            {"commands": [{"name": "x", "argv": ["x"], "series": {"s": {"json": ["a", "b", "c"]}}}]},
            "series.s.json: ['a', 'b', 'c']: give at most 2",
        ),
        ("blocks", {"min": 6, "max": 3}, "blocks: max: 3: give 6 or more"),
        ("blocks", None, "blocks: nothing is given: write a number of blocks"),
        (
            "families.fio",
            {"directories": [{"name": "d", "path": "/d"}], "page_jobs": [], "small_files": []},
            "families.fio.page_jobs: it is empty, as is small_files, which leaves no case: give at least one",
        ),
        ("families.http_concurrency.sweeps", [], "families.http_concurrency.sweeps: it is empty, which leaves no case"),
        (
            "families.http_concurrency.sweeps",
            [{"generators": []}],
            "families.http_concurrency.sweeps.0.generators: it is empty, which leaves no case",
        ),
        (
            "families.http_concurrency.servers",
            [
                {
                    "name": "c",
                    "service": "sftpgo",
                    "ceiling": True,
                    "ceiling_time": "2s",
                    "endpoints": [{"name": "x", "path": "/", "expect": {"text": "x"}}],
                }
            ],
            "servers: each of them is a ceiling: add the server to measure",
        ),
        ("families.log_write.front_ends", [], "families.log_write.front_ends: it is empty, which leaves no case"),
        ("families.file_size.backends", [None], "backends.0: nothing is given: write a mapping of keys to values"),
        ("ceilings.0.where", "backend=lcoal*", "ceilings.0.where: 'backend=lcoal*' matches no case of file_size"),
        (f"{FILE_SIZE}.rclone-s3.ports", ["s3", "s3"], "rclone-s3.ports: 's3' is given twice: remove one"),
        (
            "families.command",
            {"commands": [{"name": "x", "argv": ["x"]}], "primary": ["wall_time", "wall_time"]},
            "families.command.primary: 'wall_time' is given twice: remove one",
        ),
        (
            "families.http_concurrency.sweeps",
            [{"concurrency": [1, 1], "rates": ["9/s", "9/s"]}],
            "sweeps.0.concurrency: 1 is given twice: remove one",
        ),
        ("families.http_concurrency.rates", ["9/s", "9/s"], "http_concurrency.rates: '9/s' is given twice: remove one"),
        ("families.log_write.sweeps", [{"backends": ["x", "x"]}], "sweeps.0.backends: 'x' is given twice: remove one"),
        ("families.log_write.front_ends", [1, 1], "log_write.front_ends: 1 is given twice: remove one"),
        ("families.http_concurrency.limits", [{"name": "x", "memory": "1KB"}], "limits.0.memory: 1KB: no program"),
        ("families.log_write.limits", [{"name": "x", "memory": "255KiB"}], "memory: give at least 256KiB"),
        *(
            (
                "families.command",
                {"commands": [{"name": "x", "argv": ["x"], **read}]},
                "regex: it has a group that matches only the empty text, as () and (^) do: write what it should match, "
                "as ([0-9.]+)",
            )
            for read in (
                {"metrics": {"a": {"regex": "()"}}},
                {"metrics": {"a": {"regex": r"[()] \(tps = ()"}}},
                {"series": {"a": {"regex": "([0-9]+) ()"}}},
                {"metrics": {"a": {"regex": "(^)"}}},
                {"metrics": {"a": {"regex": r"tps(?P<value>\b|$)"}}},
                {"series": {"a": {"regex": r"([0-9]+) (\Z)"}}},
            )
        ),
        ("families.http_concurrency.sweeps", [{}, {}], "sweeps[1]: it is the same as sweeps[0]: remove one, or change"),
        (
            "families.log_write.sweeps",
            [{"rates": ["9/s"]}, {}, {"rates": ["9/s"]}],
            "sweeps[2]: it is the same as sweeps[0]: remove one, or change it",
        ),
    ],
)
def test_the_field_and_what_to_write_are_named(path, value, told):
    with pytest.raises(StudyError) as error:
        parse_study(changed(path, value))
    assert told in str(error.value)


def test_a_parenthesis_that_is_no_group_is_no_empty_group():
    commands = [{"name": "x", "argv": ["x"], "metrics": {"a": {"regex": r"[()]\(\)(?:^|$)([^()]+|\b-)"}}}]
    parse_study(changed("families.command", {"commands": commands}))


@pytest.mark.parametrize(
    "path", ["hosts.local.address", "seed", "study", "families.fio.directories.0.path", "x" * 5000]
)
def test_a_refusal_quotes_no_more_than_a_person_reads(path):
    with pytest.raises(StudyError) as error:
        parse_study(changed(path, "x" * 5000))
    assert len(str(error.value)) < 1500 and "xxx" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "seed: " + "9" * 5000,
        "seed: 2024-99-99",
        "seed: !!float x",
        "seed: !!float ''",
        "seed: !!int ''",
        "seed: !!bool foo",
        "seed: !!timestamp foo",
        "seed: !!binary AAAA",
    ],
)
def test_a_number_that_yaml_cannot_make_is_no_traceback(tmp_path, text):
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyError, match=r"study\.yaml: "):
        load_study(tmp_path / "study.yaml")


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> other"])
def test_a_mark_of_git_is_told_with_its_line(tmp_path, mark):
    (tmp_path / "study.yaml").write_text(f"study: s\nblocks: 6\n{mark}\nblocks: 8\n")
    with pytest.raises(StudyError, match=rf"study\.yaml: line 3: {mark.split()[0]} is git's mark of a merge conflict"):
        load_study(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("[1.9, 1.10]", 'line 8: YAML reads 1.10 as the number 1.1: write 1.1, or "1.10" in quotes'),
        ("{old: 1.9, new: 1.10}", "line 8: YAML reads 1.10 as the number 1.1"),
        ("{1.10: new}", "line 8: YAML reads 1.10 as the number 1.1"),
        ("[010, 020]", "line 8: YAML reads 010 as the number 8"),
        ("[1:30]", "line 8: YAML reads 1:30 as the number 90"),
        ("[0x1F]", "line 8: YAML reads 0x1F as the number 31"),
        (
            "{on: a, off: b}",
            'matrix.v: True is not a level: write a text or a number; quote what YAML reads as true: "on"',
        ),
        ("9", "matrix.v: 9: write a list of levels, such as [1, 9]"),
        ("[{{x}}]", 'line 8, column 22: this cannot be a key: write a placeholder in quotes, "{{…}}"'),
    ],
)
def test_a_level_that_yaml_would_change_is_refused(tmp_path, level, told):
    study = tmp_path / "study.yaml"
    text = (
        "study: s\nhosts: {h: {}}\ntargets: {t: {roles: {sut: h}}}\nfamilies:\n  command:\n    commands:\n"
        '    - {name: x, argv: [x, "{{v}}"],\n       matrix: {v: LEVELS}}\n'
    )
    study.write_text(text.replace("LEVELS", level))
    with pytest.raises(StudyError) as error:
        load_study(study)
    assert told in str(error.value)
    study.write_text(text.replace("LEVELS", '["1.10", "010", 8, 0.5, 1.9, 1e3]'))
    [plan] = load_study(study).sessions()
    assert [case.levels["v"] for case in plan.cases] == ["1.10", "010", "8", "0.5", "1.9", "1e3"]


_BEGIN = "study: x\nhosts: {h: {}}\ntargets: {t: {roles: {sut: h}}}\nfamilies:\n  command:\n    commands:\n"


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("study: x\nblocks:6\nhosts: {}\n", 2, "write a space after the colon of a key, as in `blocks: 6`"),
        ('study: x\nquestion: "abc\nhosts: {}\n', 2, "a text begins with a quote here: end it with the same quote"),
        ("study: x\nquestion: it is: so\n", 2, "put a text with a colon in quotes"),
        ("study: x\nargv: [gzip, -{{level}}]\n", 2, 'and close it; write a placeholder in quotes, "{{…}}"'),
        ("study: x\nhosts: {a: {}\ntargets: 1\n", 2, "a { or [ begins here: separate its items with commas, and close"),
        ("study: x\nquestion: @me\n", 2, "put a text that begins with @, % or ` in quotes"),
        ("study: x\nhosts:\n\th: {}\n", 3, "and indent with spaces, not tabs"),
        ("study: x\nblocks: *six\n", 2, "put a text that begins with * in quotes"),
        ('study: x\nquestion: "a" b\n', 2, "write nothing after a closing quote"),
        (_BEGIN + "      - name: x\n      argv: [x]\n", 8, "indent the keys of a list's item alike, behind its dash"),
        ("study: x\n---\nstudy: y\n", 2, "keep one study or system per file, without a line ---"),
        ("study: x\nhosts: {1: {}}\n", 2, "hosts.1: 1: write text; in quotes if YAML would take it for a number"),
        ("study: x\nblocks: 6\nstudy: y\n", 3, "the key 'study' occurs twice: keep one of them"),
        ("study: x\nhosts:\n  - h\n", 2, "hosts: ['h']: write a mapping of names to values"),
        (_BEGIN + "      name: x\n      argv: [x]\n", 6, "'argv': ['x']}: write a list"),
        (_BEGIN + "      - name: x\n        argv: x\n", 8, "families.command.commands.0.argv: 'x': write a list"),
        (_BEGIN + "      - name: x\n", 7, "families.command.commands.0.argv: this key is missing"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_to_write(tmp_path, capsys, text, at, what):
    study = tmp_path / "study.yaml"
    study.write_text(text)
    assert main(["check", "--no-hosts", str(study)]) == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if f"line {at}" in line]
    assert line.startswith(f"benchstudy: {study}: ") and what in line


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"prepare": [[]]}, "commands.0.prepare.0: it is empty: give at least 1"),
        ({"cleanup": [[""]]}, "commands.0.cleanup.0: the name of the program is empty"),
        ({"argv": [""]}, "commands.0: argv: the name of the program is empty"),
        (
            {"argv": ["ls -l"]},
            "argv: 'ls -l' is a command line, not a program's name: write each word apart: [ls, -l]",
        ),
        ({"argv": ["ls > x"]}, "not a program's name: give it to a shell: [sh, -c, 'ls > x']"),
        ({"argv": ["ls -{{a}}"], "matrix": {"a": ["l"]}}, "write each word apart: [ls, -{{a}}]"),
        ({"argv": ["/bin/ls -l", "x"]}, "write each word apart: [/bin/ls, -l, x]"),
        ({"prepare": [["rm x"]]}, "commands.0.prepare.0: 'rm x' is a command line"),
        ({"env": {"A-B": "1"}}, "commands.0.env: 'A-B' cannot be an environment variable: use letters, digits and _"),
        ({"env": {"A=B": "1"}}, "commands.0.env: 'A=B' cannot be an environment variable"),
        ({"expect": {"exit": 256}}, "commands.0.expect.exit.0: 256: give at most 255"),
        ({"expect": {"exit": [0, -1]}}, "commands.0.expect.exit.1: -1: give 0 or more"),
        ({"argv": ["x", "a\0b"]}, "no program can receive a NUL character"),
        ({"prepare": [["x", "\0"]]}, "no program can receive a NUL character"),
        ({"matrix": {"level": [1, 9]}}, "matrix.level: no text uses {{level}}, so its cases would be the same"),
    ],
)
def test_what_no_command_can_be_is_refused_in_words(says, told):
    command = {"name": "x", "argv": ["x"], **says}
    with pytest.raises(StudyError) as error:
        parse_study(changed("families", {"command": {"commands": [command]}}) | {"ceilings": []})
    assert told in str(error.value)
    for argv, shell in ((["/opt/my tools/x"], False), (["ls -l | wc"], True), (["x", "a b"], False)):
        block = {"command": {"commands": [{"name": "x", "argv": argv, "shell": shell}]}}
        parse_study(changed("families", block) | {"ceilings": []})


def test_a_role_that_many_services_need_is_told_once():
    with pytest.raises(StudyError) as error:
        parse_study(changed("targets.this-machine.roles", {"stu": "local"}))
    assert len(str(error.value).splitlines()) == 1


def test_a_mistake_is_said_to_be_where_it_was_made_in_the_file_or_in_config_of_the_command(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("blocks: 6\nhosts:\n  a: 1\n")
    for given, message, told in [
        ({"blocks": 0}, "blocks: 0: wrong", "--config: blocks: 0: wrong"),
        ({"hosts": {"b": 3}}, "hosts.a: no\nhosts.b.address: no",
         f"--config: hosts.b.address: no\n{file}: line 3: hosts.a: no"),
        ({}, "blocks: no", f"{file}: line 1: blocks: no"),
        ({"blocks": 7}, "until: no",
         f"{file}: until: no\n--config of this command replaces blocks of the file."),
    ]:  # fmt: skip
        with pytest.raises(StudyError) as refused, in_file(file, given):
            raise StudyError(message)
        assert str(refused.value) == told


SERVICE = {"argv": ["true"], "ports": ["http"], "ready": {"tcp": "http"}, "secret_env": {"key": "PIN"}}
AB = {"name": "ab", "tool": "ab", "requests": 10, "warm_up": 1}
WITH_LOGIN = {
    "name": "app",
    "service": "app",
    "endpoints": [{"name": "page", "path": "/", "expect": {"length": 4}}],
    "login": {"path": "/", "form": {"pin": "{{env.PIN}}"}, "token": {"cookie": "c"}},
}
WINDOW = {"version": "a", "database": "b", "load": "c", "start": "2024-09-10T10:00:00Z", "end": "2024-09-10T11:00:00Z"}
SOURCE = {"name": "grafana", "url": "http://127.0.0.1:9", "user": "me", "password_env": "PIN"}
S3 = {"name": "minio", "kind": "s3", "bucket": "files", "access_key_env": "ID", "secret_key_env": "PIN"}


@pytest.mark.parametrize(
    ("family", "block", "field"),
    [
        ("command", {"commands": [{"name": "x", "argv": ["true"]}], "services": {"app": SERVICE}},
         "services.app.secret_env.key"),
        ("file_size", {"sizes": ["1kB"], "backends": [S3]}, "backends.minio.secret_key_env"),
        ("http_concurrency", {"servers": [WITH_LOGIN], "generators": [AB], "concurrency": [1], "services": {
            "app": {key: value for key, value in SERVICE.items() if key != "secret_env"}}}, "servers.app"),
        ("load_test", {"windows": [WINDOW], "sources": [SOURCE]}, "sources.grafana.password_env"),
    ],
)  # fmt: skip
def test_a_secret_that_is_too_short_is_refused_before_anything_is_measured(
    tmp_path, monkeypatch, capsys, family, block, field
):
    study = tmp_path / "study.yaml"
    here = {"study": "s", "hosts": {"h": {"address": "db"}}, "targets": {"t": {"roles": {"sut": "h", "load": "h"}}}}
    study.write_text(yaml.safe_dump(here | {"families": {family: block}}))
    monkeypatch.setenv("ID", "long enough")
    for value, is_fine in {"1234567": False, "abc": False, "abcd": True, "12345678": True, "": True}.items():
        monkeypatch.setenv("PIN", value)
        told = f"families.{family}.{field}: the environment variable PIN is too short for a secret, because outputs "
        told += "contain it by chance: set at least 4 characters, or 8 if all are digits"
        for command in (["plan", "--no-hosts", str(study)], ["check", "--no-hosts", str(study)]):
            assert main(command) == (0 if is_fine else 1)
            assert (told in "".join(capsys.readouterr())) is not is_fine


def test_a_target_whose_roles_name_one_machine_twice_is_refused_before_it_is_measured(tmp_path, capsys):
    study = tmp_path / "study.yaml"
    hosts = {"a": {"address": "db"}, "b": {"address": "db", "user": "me"}, "c": {"address": "db", "port": 2222}}
    roles = {"apart": {"sut": "a", "load": "c"}, "one": {"sut": "a", "db": "a"}, "twice": {"sut": "a", "load": "b"}}
    targets = {name: {"roles": role} for name, role in roles.items()}
    families = {"command": {"commands": [{"name": "x", "argv": ["true"]}]}}
    said = {"study": "s", "hosts": hosts, "targets": targets, "families": families}
    study.write_text(yaml.safe_dump(said, sort_keys=False))
    told = "targets.twice.roles: a and b are the same machine: name only one of them"
    assert load_study(study).unfit() == [told]
    assert main(["check", "--no-hosts", str(study)]) == 1 and told in capsys.readouterr().out
    assert main(["plan", "--no-hosts", str(study)]) == 1 and told in capsys.readouterr().err
    study.write_text(study.read_text() + "measure: false\n")
    assert main(["check", "--no-hosts", str(study)]) == 0


def test_a_ceiling_that_only_an_imported_case_may_match_is_told(tmp_path, capsys):
    study = tmp_path / "study.yaml"
    said = {"study": "s", "hosts": {"h": {"address": "db"}}, "targets": {"t": {"roles": {"sut": "h"}}}}
    said["families"] = {"command": {"commands": [{"name": "fast", "argv": ["true"]}]}}
    ceiling = {"family": "command", "op": "read", "rate": "1GB/s", "source": "its data sheet"}
    told = "ceilings.1.where: 'command=fsat*' matches no case of command: write a pattern of some, such as command=fast"
    for where, is_told in {"command=fsat*": True, "command=fa*": False}.items():
        study.write_text(yaml.safe_dump({**said, "ceilings": [ceiling, {**ceiling, "where": where}]}))
        assert main(["check", "--no-hosts", str(study)]) == 0
        assert (f"note    {told}" in capsys.readouterr().out) is is_told
        assert main(["check", "--no-hosts", "--json", str(study)]) == 0
        assert [note.startswith(told) for note in json.loads(capsys.readouterr().out)["notes"]] == [True] * is_told


@pytest.mark.fault(25)
def test_a_value_where_a_secret_may_stand_is_not_repeated():
    with pytest.raises(StudyError) as error:
        parse_study(changed("families.http_concurrency.servers.0.login.password", 271828))
    assert "password: what is given: write text" in str(error.value)
    assert "271828" not in str(error.value)


@pytest.mark.fault(39)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x: !!python/object/apply:os.system ['touch SENTINEL']", "could not determine a constructor"),
        ("a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + ALIASES, "aliases expand to more than 1,000,000 values"),
        ("study: &a [*a]", "aliases expand to more than"),
        ("\nstudy: " + "[" * 900 + "]" * 900, "it is nested too deeply"),
        ("- " * 200_000, "it is nested too deeply"),
    ],
)
def test_a_strangers_study_runs_nothing_and_fills_no_memory(tmp_path, monkeypatch, text, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyError, match=words):
        load_study(tmp_path / "study.yaml")
    assert not (tmp_path / "SENTINEL").exists()


def test_what_is_no_study_file_is_told(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match="cannot be read as a study: Is a directory"):
        load_study(tmp_path)
    with pytest.raises(StudyError, match="not UTF-8 text"):
        load_study(tmp_path / "binary.yaml")


def test_a_discard_says_what_brings_a_trial_of_its_own_study_back(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    stored = StoredStudy(Path())
    Path("small.yaml").write_text(yaml.safe_dump(STUDY))
    for trial, options, told in (
        (stored.imported, [], "`benchstudy import …` takes"),
        (stored.ok, [], "the next report of small measures"),
        (stored.failed, ["--study", "small.yaml"], "`snakemake --cores 8 report --configfile small.yaml` measures"),
    ):
        assert main(["discard", trial.record.uuid, "--why", "x", *options]) == 0
        assert f"1 discarded; {told} them again" in capsys.readouterr().out


def test_a_trial_that_is_named_twice_is_discarded_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    uuid = StoredStudy(Path()).ok.record.uuid
    assert main(["discard", uuid, uuid[:8], "--why", "x"]) == 0
    said = capsys.readouterr().out
    assert said.count("discarded ") == 1 and "1 discarded; " in said


def test_what_verify_advises_is_about_the_study_that_it_was_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    StoredStudy(Path()).store.index.write_text("{")
    Path("small.yaml").write_text(yaml.safe_dump(STUDY))
    assert main(["verify", "small.yaml"]) == 1
    assert "`snakemake --cores 8 report --configfile small.yaml` makes it again" in capsys.readouterr().err


def test_a_wrong_address_of_a_server_is_named_by_what_gave_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    Path("small.yaml").write_text(yaml.safe_dump(STUDY))
    for address, told in (
        ("nowhere", "not the address of a server"),
        ("ftp://127.0.0.1", "not the address of a server"),
        ("http://a:b@127.0.0.1:9", "contains creden"),
        ("http://127.0.0.1:99999", "the port in http://127.0.0.1:99999 is not valid; write one from 1 to 65535"),
        ("http://127.0.0.1:s3", "the port in http://127.0.0.1:s3 is not valid"),
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert main(["pull", "s3://data/x", "--study", "small.yaml"]) == 1
        assert f"benchstudy: AWS_ENDPOINT_URL: {told}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"fio": {"runtime": "20min"}}, "job gitlab, which takes 1200 s"),
        ({"fio": {"jobs": [{"name": "a", "rw": "read", "ramp_time": "10min"}]}}, "job a, which takes 601 s"),
        ({"http_concurrency": {"timeout": "1s"}}, "generator wrk, whose load takes 1 s"),
        (
            {"log_write": {"rates": ["search"], "timeout": "1min"}},
            "for search: its warm-ups and windows at one rate take 66",
        ),
        (
            {"log_write": {"rates": [], "sweeps": [{"rates": ["2000/s"]}], "timeout": "5s"}},
            "generator open: its warm-ups and windows at one rate take 5 s",
        ),
        (
            {"command": {"commands": [{"name": "x", "argv": ["x"], "warm_up": "10min"}]}},
            "command x, whose warm_up takes 600 s",
        ),
    ],
)
def test_a_timeout_that_no_trial_can_keep_is_told_before_it_is_measured(block, told):
    [(family, said)] = block.items()
    families = {family: {**EMBEDDED["families"].get(family, {}), **said}}
    found = parse_study(EMBEDDED | {"families": families, "ceilings": []}).unfit()
    assert [line for line in found if line.startswith(f"families.{family}: timeout: ") and told in line]


def test_a_block_that_does_not_fit_into_its_file_is_told_before_it_is_measured():
    jobs = [
        {"name": "big", "rw": "read", "bs": "1MiB"},
        {"name": "whole", "rw": "read", "bs": "1MiB", "size": "1MiB"},
        {"name": "range", "rw": "read", "bs": "1MiB", "extra": {"bsrange": "1k-4k"}},
    ]
    fio = EMBEDDED["families"]["fio"] | {"size": "2KiB", "page_jobs": ["gitlab"], "jobs": jobs}
    found = parse_study(EMBEDDED | {"families": {"fio": fio}, "ceilings": []}).unfit()
    assert found == [
        "families.fio: job gitlab: bs: 4KiB is more than size, 2KiB: give a size of 4KiB or more",
        "families.fio: job big: bs: 1MiB is more than size, 2KiB: give a size of 1MiB or more",
    ]


def test_what_is_advised_for_a_host_with_another_name_leaves_the_trials_of_other_targets(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    one = StoredStudy(Path())
    shutil.copytree(one.store.folder, Path("data/raw/small/two/file_size"))
    targets = {"one": {"roles": {"sut": "renamed"}}, "two": {"roles": {"sut": "box"}}}
    moved = STUDY | {"hosts": STUDY["hosts"] | {"renamed": {"address": "192.0.2.7"}}, "targets": targets}
    Path("config").mkdir(exist_ok=True)
    Path("config/config.yaml").write_text(yaml.safe_dump(moved))
    assert main(["plan"]) == 1
    advised = re.search("the host box, and .* gives it to renamed.* `benchstudy (discard .*)`", capsys.readouterr().out)
    assert main([word.replace("…", "renamed") for word in shlex.split(advised[1])]) == 0
    was = {one.discarded.facts.uuid}
    assert TrialStore(Path("data/raw/small/two/file_size")).discards().keys() == was < one.store.discards().keys()


def test_a_check_that_tries_nothing_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(as_project(tmp_path))
    Path("small.yaml").write_text(yaml.safe_dump(STUDY | {"hosts": {"box": {"address": "127.0.0.1", "port": 9}}}))
    assert main(["check", "--try", "small.yaml"]) == 1
    assert capsys.readouterr().out.endswith("1 problem; no case was tried\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["discard", "*", "--why", "x"], "'*' is not the id of a trial"),
        (["discard", "3f2a91bc", "--why", "x"], "3f2a91bc: no trial has this id: reports show the ids"),
        (["discard", "3f2a91bc", "--status", "failed", "--why", "x"], "name trials, or give these options"),
        (["discard", "3f2a91bc", "--case", "nope", "--why", "x"], "name trials, or give these options"),
        (["discard", "--case", "nope", "--why", "x"], "--case: embedded has no trial of 'nope'"),
        (["discard", "--target", "nope", "--why", "x"], "--target: embedded has no target 'nope'"),
        (["discard", "3f2a91bc", "--target", "nope", "--why", "x"], "name trials, or give these options"),
        (["verify"], "nothing to verify"),
        (["push", "s3://data/x", "--endpoint-url", "http://127.0.0.1:9"], "nothing was measured or imported yet"),
        (["import", ""], "PATH: empty: name a file or a folder"),
        (["prose", "README.md"], "README.md: not a notebook"),
        (["prose", "docs"], "docs: a folder: name the notebooks in it, such as docs/*.ipynb"),
        (["prose", "deep.ipynb"], "deep.ipynb: not a notebook: it is nested too deeply"),
        (["export", "new/x.gz", "--url", "http://h:1", "--start", "2024", "--end", "2025"], "--start: '2024' is not a"),
        ([*EXPORT, "--url", "http://h:1", "--start", "0001-01-01T00:00:00+14:00"], "--start: 0001-01-01"),
        ([*EXPORT, "--url", "nowhere"], "benchstudy: --url: 'nowhere' is not an address such as http"),
        ([*EXPORT, "--url", "http://h:1", "--end", "2024-09-10T09:00:00Z"], "benchstudy: --start, --end: it ends"),
        ([*EXPORT, "--url", "http://h:1", "--append"], "README.md: no whole export, so nothing is added to it"),
    ],
)
def test_wrong_arguments_are_told_and_change_nothing(arguments, told, bare_project, capsys):
    for folder in ("config", "docs"):
        (bare_project / folder).mkdir()
    (bare_project / "config" / "config.yaml").write_text(yaml.safe_dump(EMBEDDED))
    (bare_project / "README.md").write_text("no notebook\n")
    (bare_project / "deep.ipynb").write_text("[" * 100_000)
    before = sorted(bare_project.rglob("*"))
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert told in said and "Traceback" not in said
    assert sorted(bare_project.rglob("*")) == before
