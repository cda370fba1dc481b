"""Systems instead of services: what a study becomes, which messages it gets, and what every folder contains."""

import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import CHECKOUT, as_owner

from benchstudy.commands.cli import main
from benchstudy.model import registry
from benchstudy.model.catalogue.folders import Catalogue
from benchstudy.model.catalogue.instances import Instances
from benchstudy.model.catalogue.system import README, Found, texts_of
from benchstudy.model.errors import StudyError
from benchstudy.model.needs import programs_by_host
from benchstudy.model.schema import study_schema
from benchstudy.model.services import PLACEHOLDER, Service
from benchstudy.model.studyfile import load_study, parse_study, with_systems

DATA = Path(__file__).parent / "data"
CATALOGUE = Catalogue()
GENERATORS = [{"name": "wrk", "tool": "wrk", "duration": "1s", "warm_up": "0s"}]


def study(**families: Any) -> dict[str, Any]:
    return {
        "study": "small",
        "hosts": {"here": {"loopback": True}},
        "targets": {"bench": {"roles": {"sut": "here"}}},
        "families": families,
    }


def http(*servers: Any, **more: Any) -> dict[str, Any]:
    """The family's block with these servers, expanded. Systems are those of tests/data/systems and those that ship."""
    block = {"servers": list(servers), "generators": GENERATORS, "concurrency": [1], **more}
    return with_systems(study(http_concurrency=block), DATA)["families"]["http_concurrency"]


def shop(given: Any) -> dict[str, Any]:
    return {"system": "shop", "with": given}


def command(*commands: Any, **more: Any) -> dict[str, Any]:
    return with_systems(study(command={"commands": list(commands), **more}), DATA)["families"]["command"]


# --- what a system becomes --------------------------------------------------------------------------------------------


def test_a_system_becomes_the_services_and_the_entry_that_one_would_write():
    made = http({"system": "shop"})
    assert made["services"]["shop"] == {
        "needs": ["stock"],
        "ports": ["http"],
        "secrets": ["password"],
        "files": {"greeting.txt": "hello from {{stock.dir}}/goods\n"},
        "env": {"TILLS": "2", "PAY": "coins", "OPEN": "true"},
        "argv": ["shop", "--cache=1MiB", "--wait", "5s", "--pay", "cash", "{{bind}}:{{port.http}}"],
        "ready": {"tcp": "http"},
    }
    assert set(made["services"]) == {"shop", "stock"}, "a part that nobody speaks of is not made"
    [server] = made["servers"]
    assert (server["name"], server["service"]) == ("shop", "shop")
    # A number stays a number, and the host's placeholders stay.
    assert server["endpoints"][0] == {
        "name": "goods",
        "path": "/goods/{{n}}",
        "expect": {"length": 5},
        "walk": {"first": 1, "last": 5},
    }
    assert server["login"]["json_body"] == {"password": "{{secret.password}}"}


def test_a_study_with_a_system_measures_what_one_that_writes_it_out_does():
    declared = study(http_concurrency={"servers": [{"system": "nginx"}], "generators": GENERATORS, "concurrency": [1]})
    short, long = parse_study(declared), parse_study(with_systems(declared))
    assert short.sha256 == long.sha256
    cases = [[case.definition_sha256 for case in each.sessions()[0].cases] for each in (short, long)]
    assert cases[0] == cases[1] and len(cases[0]) == 2


def test_what_speaks_of_no_system_stays_as_it_is():
    service = {"argv": ["db"], "ready": {"tcp": "sql"}, "ports": ["sql"]}
    declared = study(command={"commands": [{"name": "x", "argv": ["x"], "system": "db"}], "services": {"db": service}})
    assert with_systems(declared) == declared


def test_what_an_entry_says_stands_above_what_the_system_offers():
    [server] = http(
        {"system": "shop", "name": "corner", "login": {"path": "/in"}, "endpoints": [{"name": "own", "path": "/"}]}
    )["servers"]
    assert server["name"] == server["service"] == "corner"
    assert server["login"]["path"] == "/in" and server["login"]["token"] == {"json_key": "token"}
    assert [endpoint["name"] for endpoint in server["endpoints"]] == ["own"]


def test_words_are_arguments_each():
    made = http({"system": "shop", "with": {"options": "--loud --name 'my shop'"}})
    assert made["services"]["shop"]["argv"][-4:] == ["--loud", "--name", "my shop", "{{bind}}:{{port.http}}"]


def test_a_part_is_made_when_it_is_spoken_of_and_is_like_another():
    block = {"backends": [{"name": "log", "system": "shop"}], "generators": []}
    made = with_systems(study(log_write=block), DATA)["families"]["log_write"]
    [backend] = made["backends"]
    assert backend["antispam_service"] == "log-guarded" and backend["directory"] == "{{stock.dir}}/goods"
    plain, guarded = made["services"]["log"], made["services"]["log-guarded"]
    assert guarded["argv"] == [*plain["argv"], "--guard"] and guarded["env"] == {**plain["env"], "GUARD": "1"}


def load(*versions: Any, **more: Any) -> dict[str, Any]:
    block = {"versions": list(versions), "databases": ["stock"], **more}
    return with_systems(study(load_test=block), DATA)["families"]["load_test"]


def test_what_a_system_offers_holds_for_the_family_as_a_whole_and_what_is_said_stands_above_it():
    made = load({"system": "shop"})
    # Its parameters are filled in. Everything else is the family's, such as the database of a trial.
    assert made["metrics"] == {"api": "shop_seconds", "requests": "shop_cash_total"}
    assert made["system"] == {"accounts": "{{database.dir}}/accounts.json"}
    made = load({"system": "shop"}, metrics={"api": "own_seconds", "heap": "own_bytes"})
    assert made["metrics"] == {"api": "own_seconds", "requests": "shop_cash_total", "heap": "own_bytes"}
    named = load({"name": "one", "services": {"stock": "corner"}}, services={"corner": {"system": "shop"}})
    assert named["metrics"]["api"] == "shop_seconds", "a system below services offers it, too"
    both = [{"system": "shop"}, {"name": "other", "system": "shop", "with": {"pay": "card"}}]
    with pytest.raises(StudyError, match=r"families\.load_test\.metrics: shop and other.* offer different values"):
        load(*both)


# --- which instance ---------------------------------------------------------------------------------------------------


def test_systems_that_name_one_share_it_and_a_study_may_set_it_up():
    two = [{"system": "shop"}, {"name": "other", "system": "shop"}]
    assert set(http(*two)["services"]) == {"shop", "other", "stock"}
    named = http(*two, services={"stock": {"system": "stock", "with": {"goods": 77}, "role": "db"}})
    assert {server["endpoints"][0]["walk"]["last"] for server in named["servers"]} == {77}
    assert named["services"]["stock"]["role"] == "db" and "role" not in named["services"]["shop"]


def test_a_parameter_takes_a_system_of_its_own_or_a_service_of_the_study():
    own = http({"system": "shop", "with": {"stock": {"system": "stock", "with": {"goods": 9}}}})
    assert set(own["services"]) == {"shop", "shop-stock"} and own["services"]["shop"]["needs"] == ["shop-stock"]
    described = {"argv": ["sleep"], "ready": {"file": "{{dir}}/x"}}
    with pytest.raises(StudyError, match=r"servers\.0: its stock must give 'count', but service mine does not"):
        http({"system": "shop", "with": {"stock": "mine"}}, services={"mine": described})
    kept = http({"system": "sftpgo"}, services={"plain": {**described, "needs": ["openssh"]}})
    assert kept["services"]["plain"] == {**described, "needs": ["openssh"]}


def test_a_described_service_may_need_a_system():
    described = {"argv": ["x", "{{stock.dir}}"], "needs": ["stock"], "ready": {"file": "{{dir}}/x"}}
    made = command({"name": "x", "argv": ["x"], "system": "mine"}, services={
        "mine": described, "stock": {"system": "stock"}, "again": {"system": "shop", "with": {"tills": 3}},
    })  # fmt: skip
    assert set(made["services"]) == {"mine", "stock", "again"}
    assert made["commands"] == [{"name": "x", "argv": ["x"], "system": "mine"}]


# --- levels -----------------------------------------------------------------------------------------------------------


def test_several_values_of_a_parameter_are_an_entry_each():
    made = http({"system": "shop", "with": {"tills": [1, 4], "pay": ["cash", "card"]}})
    names = [f"shop-tills-{tills}-pay-{pay}" for tills in (1, 4) for pay in ("cash", "card")]
    assert [server["name"] for server in made["servers"]] == names
    assert [made["services"][name]["env"]["TILLS"] for name in names] == ["1", "1", "4", "4"]


def test_several_values_of_a_parameter_are_a_factor_of_a_command():
    [unnamed] = command({"argv": ["visit"], "system": "shop", "with": {"tills": [1, 4]}})["commands"]
    assert (unnamed["name"], unnamed["system"]) == ("shop", "shop-shop-tills-{{tills}}")
    made = command(
        {
            "name": "visit",
            "argv": ["visit", "{{n}}"],
            "matrix": {"n": [1, 2]},
            "system": "shop",
            "with": {"tills": [1, 4]},
        }
    )
    [visit] = made["commands"]
    assert visit["system"] == "visit-shop-tills-{{tills}}" and visit["env"] == {"SHOP": "{{system.bind}}"}
    assert visit["matrix"] == {"tills": ["1", "4"], "n": [1, 2]}
    assert {"visit-shop-tills-1", "visit-shop-tills-4"} < set(made["services"])
    (plan,) = parse_study(study(command=made)).sessions()
    assert {(case.levels["tills"], case.levels["n"]) for case in plan.cases} == {
        ("1", "1"), ("1", "2"), ("4", "1"), ("4", "2"),
    }  # fmt: skip
    servers = {case.levels["tills"]: case.definition["system"] for case in plan.cases}
    assert len({json.dumps(server) for server in servers.values()}) == 2, "each level has a server of its own"


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ({"system": "shopp"}, "servers.0.system: no system 'shopp', and no service of this name: did you"),
        (shop({"till": 3}), "0.with: shop has no parameter 'till': did you mean \"tills\"?"),
        (shop({"tills": "two"}), "servers.0.with.tills: 'two': write a whole number"),
        (shop({"tills": 2.5}), "servers.0.with.tills: 2.5: write a whole number"),
        (shop({"greeting": 9.1}), "servers.0.with.greeting: 9.1: write a text, in quotes"),
        (shop({"cache": "12"}), "servers.0.with.cache: '12' is not a size"),
        (shop({"patience": "12"}), "servers.0.with.patience: '12' is not a duration"),
        (shop({"open": "yes"}), "servers.0.with.open: 'yes': write true or false"),
        (shop({"pay": "carrd"}), "with.pay: 'carrd' is not one of its choices: did you mean \"card\"?"),
        (shop({"options": "'x"}), "with.options: \"'x\": write arguments as in a shell"),
        (shop({"stock": "stok"}), "no system or service 'stok': did you mean \"stock\"?"),
        (shop({"stock": 5}), "servers.0.with.stock: 5: write the name of a system"),
        (shop({"stock": "nginx"}), "its stock must give 'count', but system nginx does not"),
        (shop({"tills": [1, 1]}), "servers.0.with.tills: give each level once"),
        (shop({"tills": []}), "servers.0.with.tills: give each level once, and at least one"),
        (shop([1]), "servers.0.with: write a mapping of parameters to values"),
        (shop({"stock": [{"system": "stock"}]}), "servers.0.with.stock: a level needs a name: describe each below"),
        ({"system": "filestash"}, "servers.0.with.binary: filestash needs it: the program on the host"),
        ({"name": "a/b", "system": "shop"}, "servers.0: 'a/b' cannot be a name"),
    ],
)  # fmt: skip
def test_the_field_and_the_fix_are_named(server, told):
    with pytest.raises(StudyError) as error:
        http(server)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"services": {"x": {"system": "shop", "wiht": {}}}}, "services.x.wiht: unknown key of a system: did you mean"),
        ({"servers": [{"system": "shop", "with": {"stock": {"system": "stock", "with": True}}}]}, "with.stock: {'"),
        ({"services": {"x": {"system": "shop", "with": {"tills": [1, 2]}}}}, "x.with.tills: a list makes levels"),
        ({"services": {"shop": {"argv": ["x"]}}, "servers": [{"system": "stock", "name": "shop"}]}, "is described"),
        ({"services": {"shop": {"system": "stock"}}, "servers": [{"name": "shop", "system": "nginx"}]}, "already has"),
        ({"generators": [{"system": "shop"}]}, "families.http_concurrency.generators: its entries take no system"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(block, told):
    with pytest.raises(StudyError) as error:
        http(*block.pop("servers", ()), **block)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("license: MIT", "license: MYT"), "license: 'MYT': give an SPDX identifier"),
        (("homepage: https://", "homepage: "), "homepage: 'example.org/stock': write an address that begins with"),
        (("type: integer", "type: number"), "parameters.goods.type: 'number': write 'text'"),
        (("default: 5", "default: five"), "parameters.goods: default: 'five': write a whole number"),
        (("{{with.goods}}", "{{with.good}}"), "{{with.good}}: no such parameter: did you mean \"goods\"?"),
        (("{{with.goods}}", "5"), "parameters.goods: nothing uses {{with.goods}}: use it, or remove the parameter"),
        (("    argv:", "    files_from: [run.sh]\n    argv:"), "services.stock.files_from: there is no file"),
        (("gives:", "builds: [stockd]\ngives:"), "builds: stockd: the folder has no deploy.py that"),
        (("gives:", "offers: {command: {comands: {}}}\ngives:"), "offers.command.comands: the family has no such key"),
        (("  stock:\n", "  store:\n"), "services: none has the system's own name 'stock'"),
        (("    argv:", "    argc:"), "services.stock.argc: unknown key: did you mean \"argv\"?"),
        (("title: Stock", "title: \udcff"), "not UTF-8 text: invalid start byte at byte 7: save it as UTF-8"),
        (("title: Stock", "title: ["), "system.yaml: not valid YAML: line 1, column 8: "),
        (("    argv:", "    like: stock\n    argv:"), "services.stock.like: it is like itself: stock → stock"),
        (("    argv:", "    like: [stock]\n    argv:"), "services.stock.like: write the name of a service"),
        (("    argv:", "    env_like: [shop]\n    argv:"), "services.stock.env_like: write the name of a service"),
        (("    argv:", "    env_like: ab\n    argv:"), "env_like: no system 'ab' with a service"),
        (("    argv:", '    argv_added: "-x"\n    argv:'), "services.stock.argv_added: write a list of texts"),
        (("    argv:", "    needs: 5\n    argv:"), "services.stock.needs: write a list of texts"),
        (("    argv:", "    files_from: [5]\n    argv:"), "services.stock.files_from: write a list of texts"),
        (("    argv:", '    files_from: ["\\0"]\n    argv:'), "services.stock.files_from: "),
        (("    argv:", "    env: 5\n    argv:"), "services.stock.env: write a mapping"),
        (("    argv:", "    files: [x]\n    argv:"), "services.stock.files: write a mapping"),
        (("type: integer, default: 5", "type: system, default: {with: {}}"), "parameters.goods: default: {'with': {}}"),
        (("title: Stock", "titel: Stock"), "titel: unknown key: did you mean \"title\"?"),
        (("default: 5", "defualt: 5"), "parameters.goods.defualt: unknown key: did you mean \"default\"?"),
        (("{file: \"{{dir}}/goods\"}", "{files: x}"), "services.stock.ready.files: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_system_is_told_with_its_file(edit, told, tmp_path):
    shutil.copytree(DATA / "systems", tmp_path / "systems")
    file = tmp_path / "systems" / "stock" / "system.yaml"
    assert edit[0] in file.read_text()
    file.write_text(file.read_text().replace(*edit), errors="surrogateescape")
    block = {"commands": [{"name": "x", "argv": ["x"], "system": "stock"}]}
    with pytest.raises(StudyError) as error:
        with_systems(study(command=block), tmp_path)
    assert told in str(error.value) and "system stock" in str(error.value)


def test_a_misspelt_family_to_which_a_system_offers_is_told_where_its_offer_is_missed(tmp_path):
    folder = tmp_path / "systems" / "stock"
    shutil.copytree(DATA / "systems" / "stock", folder)
    offers = "offers: {http_concurency: {servers: {port: x}}}\n"
    (folder / "system.yaml").write_text(f"{(DATA / 'systems/stock/system.yaml').read_text()}\n{offers}")
    block = {"servers": [{"system": "stock"}], "generators": GENERATORS, "concurrency": [1]}
    with pytest.raises(StudyError, match=r'offers\.http_concurency: no such family: did you mean "http_concurrency"'):
        with_systems(study(http_concurrency=block), tmp_path)
    with_systems(study(command={"commands": [{"name": "x", "argv": ["x"], "system": "stock"}]}), tmp_path)


def test_a_system_that_needs_itself_is_told(tmp_path):
    shutil.copytree(DATA / "systems", tmp_path / "systems")
    file = tmp_path / "systems" / "stock" / "system.yaml"
    more = "  goods: {type: integer, default: 5, description: x}\n  shop: {type: system, default: shop, description: x}"
    text = file.read_text().replace("  goods: {type: integer, default: 5, description: how many it has}", more)
    file.write_text(text)
    with pytest.raises(StudyError, match="needs itself: shop → stock → shop"):
        with_systems(study(http_concurrency={"servers": [{"system": "shop"}]}), tmp_path)


# --- your own catalogue -----------------------------------------------------------------------------------------------


def test_systems_lie_beside_a_study_or_where_it_says(tmp_path, monkeypatch):
    declared = study(command={"commands": [{"name": "x", "argv": ["x"], "system": "stock"}]})
    shutil.copytree(DATA / "systems", tmp_path / "a" / "systems")
    (tmp_path / "a" / "study.yaml").write_text(yaml.safe_dump(declared))
    monkeypatch.chdir(tmp_path)
    found = load_study(tmp_path / "a" / "study.yaml")
    assert "stock" in found.families["command"].services and found.systems == [str(tmp_path / "a" / "systems")]

    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "study.yaml").write_text(yaml.safe_dump({**declared, "systems": ["../a/systems"]}))
    elsewhere = load_study(tmp_path / "b" / "study.yaml")
    # Where systems are is not part of what is declared.
    assert elsewhere.sha256 == found.sha256 and "systems" not in elsewhere.model_dump()
    with pytest.raises(StudyError, match="systems: there is no folder"):
        with_systems({**declared, "systems": ["nowhere"]}, tmp_path)


@pytest.mark.parametrize("closed", ["systems", "systems/mine"])
def test_a_folder_of_systems_that_may_not_be_read_is_told(closed, tmp_path):
    shutil.copytree(CHECKOUT / "envs" / "redis", tmp_path / "systems" / "mine")
    (tmp_path / "study.yaml").write_text("study: s\n")
    (tmp_path / closed).chmod(0)
    cli = [sys.executable, "-m", "benchstudy.commands.cli"]
    done = as_owner([*cli, "systems", "--study", "study.yaml"], tmp_path)
    (tmp_path / closed).chmod(0o755)
    assert done.returncode == 1 and f"{tmp_path / closed}" in done.stderr and "Permission denied" in done.stderr


def test_a_system_whose_file_is_a_link_that_leads_nowhere_is_told(tmp_path, capsys):
    (tmp_path / "systems" / "mine").mkdir(parents=True)
    (tmp_path / "systems" / "mine" / "system.yaml").symlink_to("gone")
    (tmp_path / "study.yaml").write_text("study: s\n")
    assert main(["systems", "--study", str(tmp_path / "study.yaml")]) == 1
    assert "system mine: " in capsys.readouterr().err


def test_a_broken_system_hides_no_other(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / "systems" / name).mkdir(parents=True)
        (tmp_path / "systems" / name / "system.yaml").write_text("titel: x\n")
    (tmp_path / "study.yaml").write_text("study: s\n")
    for words in ([], ["--json"]):
        assert main(["systems", "--study", str(tmp_path / "study.yaml"), *words]) == 1
        said = capsys.readouterr()
        assert "nginx" in said.out and '"one"' not in said.out
        assert all(f"benchstudy: system {name}: " in said.err for name in ("one", "two")) and "titel" in said.err


def test_an_own_system_takes_the_place_of_one_that_ships(tmp_path):
    shutil.copytree(CHECKOUT / "envs" / "redis", tmp_path / "systems" / "redis")
    file = tmp_path / "systems" / "redis" / "system.yaml"
    file.write_text(file.read_text().replace("- redis-server\n      - --bind", "- /opt/redis\n      - --bind"))
    block = {"commands": [{"name": "x", "argv": ["x"], "system": "redis"}]}
    own, shipped = (with_systems(study(command=block), folder) for folder in (tmp_path, None))
    programs = [each["families"]["command"]["services"]["redis"]["argv"][0] for each in (own, shipped)]
    assert programs == ["/opt/redis", "redis-server"]


def test_a_package_brings_systems_and_a_wrong_one_stops_only_studies_that_name_its(tmp_path, monkeypatch, caplog):
    package = tmp_path / "bringing" / "things"
    shutil.copytree(DATA / "systems", package)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    metadata = tmp_path / "bringing-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bringing\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[benchstudy.systems]\nthings = bringing.things\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert Catalogue()["shop"].folder == package / "shop"
    for point, told in {
        "bringing.things": "bringing.things cannot be imported: ZeroDivisionError: division by zero; correct it and",
        "bringing.nothing.things": "bringing.nothing.things is not a package of Python; correct its entry point and",
    }.items():
        (package.parent / "__init__.py").write_text("1 / 0\n" if point == "bringing.things" else "")
        (metadata / "entry_points.txt").write_text(f"[benchstudy.systems]\nthings = {point}\n")
        monkeypatch.delitem(sys.modules, "bringing", raising=False)
        importlib.invalidate_caches()
        assert "nginx" in Catalogue()
        told = f"left out: bringing provides systems, but {told} install it again, or uninstall bringing"
        assert caplog.messages.pop() == told


def test_systems_of_packages_that_cannot_be_used_stop_only_studies_that_name_them(tmp_path, monkeypatch, caplog):
    for package, system in (("one", "same"), ("two", "same"), ("two", "broken")):
        folder = tmp_path / f"{package}_systems"
        shutil.copytree(DATA / "systems" / "shop", folder / system)
        (folder / "__init__.py").touch()
        metadata = tmp_path / f"{package}-1.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[benchstudy.systems]\nmine = {package}_systems\n")
    (tmp_path / "two_systems" / "broken" / "system.yaml").write_text("titel: X\n")
    monkeypatch.syspath_prepend(tmp_path)
    os.environ.pop(registry.WARNED, None)
    assert "nginx" in {found.name for found in Catalogue().sound()}
    assert "with.nginx" in study_schema(Catalogue())["$defs"]
    places = {tmp_path / f"{package}_systems" / "same" for package in ("one", "two")}
    told = [line for line in caplog.messages if "two packages provide a system 'same'" in line]
    assert len(told) == 1 and all(str(place) in told[0] for place in places)
    assert any("broken: " in line and "titel: unknown key" in line for line in caplog.messages)
    for name, why in {"same": "two packages provide a system 'same'", "broken": "unknown key"}.items():
        block = {"commands": [{"name": "x", "argv": ["x"], "system": name}]}
        with pytest.raises(StudyError, match=why):
            with_systems(study(command=block), None)


# --- what hosts need --------------------------------------------------------------------------------------------------


def test_a_commands_programs_are_what_its_host_needs():
    commands = [
        {"name": "bench", "argv": ["redis-benchmark"], "prepare": [["redis-cli", "flushall"]], "system": "redis"},
        {"name": "text", "argv": ["ab | wrk"], "shell": True},
        {"name": "there", "argv": ["pgbench"], "role": "load"},
    ]
    declared = study(command={"commands": commands})
    declared["hosts"]["there"] = {"address": "there"}
    declared["targets"]["bench"]["roles"]["load"] = "there"
    found = programs_by_host(parse_study(declared), "bench")
    assert found == {"here": ["redis-benchmark", "redis-cli", "redis-server"], "there": ["pgbench"]}


def test_a_shell_that_reads_its_script_from_elsewhere_is_the_only_program():
    by_stdin = {"name": "command", "argv": ["sh"], "stdin": "true", "prepare": [["sh"]]}
    service = {"argv": ["sh"], "ready": {"file": "x"}}
    declared = study(command={"commands": [by_stdin], "services": {"idle": service}})
    assert programs_by_host(parse_study(declared), "bench") == {"here": ["sh"]}


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_catalogue_is_listed_and_a_system_shown(capsys, tmp_path):
    assert main(["systems"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CATALOGUE)
    assert main(["systems", "sftpgo"]) == 0
    said = capsys.readouterr().out
    assert "storage: system, default openssh" in said and "AGPL-3.0-only" in said and "endpoints static" in said
    assert main(["systems", "sftpgo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "sftpgo" and told["parameters"]["storage"]["default"] == "openssh"
    assert main(["systems", "sftpgoo"]) == 1
    assert 'did you mean "sftpgo"?' in capsys.readouterr().err
    shutil.copytree(DATA / "systems", tmp_path / "systems")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study()))
    assert main(["systems", "--json", "--study", str(tmp_path / "study.yaml")]) == 0
    assert {"shop", "nginx"} < {system["name"] for system in json.loads(capsys.readouterr().out)}


# --- every folder -----------------------------------------------------------------------------------------------------


def spoken_of(found: Found) -> Iterator[str]:
    """Names that its texts and files refer to, or need: of parameters, by value or as systems, and of others."""
    services = [found.service(name) for name in found.system.services]
    for text in texts_of([services, found.system.gives, found.system.offers]):
        yield from (used.removeprefix("with.").partition(".")[0] for used in PLACEHOLDER.findall(text))
    yield from (name for service in services for name in service.get("needs", ()))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_folder_of_the_catalogue_is_whole(name):
    found = CATALOGUE[name]
    system = found.system
    readme = (found.folder / README).read_text()
    assert readme.startswith(f"# {name}\n") and 4 <= len(readme.splitlines()) <= 15
    # Parameters that another system's text uses count there.
    shared = {other for service in system.services.values() for other in [service.get("env_like")] if other}
    assert set(system.parameters) <= {word for other in (name, *shared) for word in spoken_of(CATALOGUE[other])}
    assert (found.folder / "deploy.py").is_file() == bool(system.builds)
    if system.services and not any(parameter.required for parameter in system.parameters.values()):
        for service in made(name).values():
            Service.model_validate(service)
            assert not [used for text in json.dumps(service).split('"') for used in PLACEHOLDER.findall(text)
                        if used.startswith("with.")]  # fmt: skip


def made(name: str) -> Mapping[str, Any]:
    return Instances("services", {name: {"system": name}}, CATALOGUE).services()


def test_one_program_comes_from_one_place():
    packages: dict[str, set[str]] = {}
    builds: dict[str, str] = {}
    for name, found in CATALOGUE.items():
        for package, what in found.system.packages.items():
            for program in what.programs:
                packages.setdefault(program, set()).add(f"{package} {what.dnf} {what.apk}")
        for program in found.system.builds:
            assert builds.setdefault(program, name) == name
    assert {program: places for program, places in packages.items() if len(places) > 1} == {}
    assert not packages.keys() & builds.keys()


def test_no_code_knows_a_system_by_name():
    """A folder is enough: neither the package nor the workflow has a list of systems."""
    source = CHECKOUT / "src" / "benchstudy"
    code = [*(source / "model").rglob("*.py"), *(source / "provisioning").rglob("*.py")]
    code += [*(CHECKOUT / "workflow").rglob("*.smk"), *(CHECKOUT / "envs").glob("*.py")]
    texts = {path: path.read_text() for path in code}
    named = [(name, path.name) for name in CATALOGUE for path, text in texts.items() if f'"{name}"' in text]
    assert named == []


def test_no_service_is_described_twice_in_the_studies():
    seen: dict[str, str] = {}
    for file in [CHECKOUT / "config/config.yaml", *sorted((CHECKOUT / "config/studies").glob("*.yaml"))]:
        lines = len(file.read_text().splitlines())
        assert lines <= (150 if file.name == "config.yaml" else 100), file
        for block in yaml.safe_load(file.read_text())["families"].values():
            for name, service in ((block or {}).get("services") or {}).items():
                if "system" not in service:
                    place = f"{file.name}: {name}"
                    assert seen.setdefault(json.dumps(service["argv"]), place) == place


def test_a_thumbnail_is_told_from_the_picture_that_it_is_made_of():
    """A server that cannot make thumbnails sends the picture itself: a PNG, with status 200."""
    kinds = [
        endpoint["expect"]["content_type"]
        for found in CATALOGUE.values()
        for endpoint in found.system.offers.get("http_concurrency", {}).get("servers", {}).get("endpoints", ())
        if endpoint["name"] == "transcode"
    ]
    assert len(kinds) > 1 and not [kind for kind in kinds if "image/png".startswith(kind)]
