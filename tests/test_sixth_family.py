"""A family of another package (data/sixth_family), only on PYTHONPATH, works like the five others.

No file of the project names it.
"""

import csv
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from conftest import CHECKOUT, Project, copy_project
from sshd_hosts import SshdHost

PACKAGE = CHECKOUT / "tests" / "data" / "sixth_family"
FAMILY = "sixth_family"


class WithSixth(Project):
    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"PYTHONPATH": f"{self.root / 'src'}{os.pathsep}{self.package}"}

    @property
    def package(self) -> Path:
        """Where the family is: outside all folders of the project."""
        return self.root.parent / "package"

    @property
    def reports(self) -> Path:
        return self.root / "reports" / "naps"

    @property
    def told(self) -> Path:
        """What the command said that made the reports."""
        return self.root.parent / "told.txt"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithSixth]:
    """A study of naps, provisioned, measured on a real sshd and reported. Its user added a published table."""
    base = tmp_path_factory.mktemp("sixth")
    with SshdHost(base / "sshd") as sshd:
        project = WithSixth(copy_project(base / "project").root)
        shutil.copytree(PACKAGE, project.package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PACKAGE / "naps.csv", project.root / "data" / "published")
        _break_others(project)
        project.write_study(
            {
                # Other tests run in parallel, and must not affect its verdicts.
                "disturbance": {"limit": "100 %"},
                "study": "naps",
                "blocks": 6,
                "hosts": {"bed": sshd.described(base / "work")},
                "targets": {"bedroom": {"roles": {"sut": "bed"}}},
                "acknowledge": [{"lint": "brief-nap", "reason": "They are meant to be brief."}],
                "families": {FAMILY: {"lengths": ["1ms", "5ms"]}},
            }
        )
        project.told.write_text(project.snakemake("report", "--configfile", "config/study.yaml").stderr)
        yield project


def _break_others(project: WithSixth) -> None:
    """A package without its family, a family that cannot be imported, and a system without a description."""
    files = {
        "broken-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: broken\nVersion: 1\n",
        "broken-1.dist-info/entry_points.txt": "[benchstudy.families]\nnone = no_bench\nbroken = broken_bench\n",
        "broken_bench/__init__.py": "",
        "broken_bench/family.py": "1 / 0\n",
    }
    for name, text in files.items():
        (project.package / name).parent.mkdir(exist_ok=True)
        (project.package / name).write_text(text)
    (project.root / "envs" / "broken").mkdir()
    (project.root / "envs" / "broken" / "system.yaml").write_text("title: 1\n")


@pytest.fixture(scope="module")
def page(reported: WithSixth) -> str:
    return (reported.reports / f"{FAMILY}.html").read_text()


def test_what_is_broken_beside_it_is_told_once_and_not_by_each_job(reported):
    told = reported.told.read_text()
    for broken in ("left out: broken provides a family 'none'", "the family broken is left out", "out: system broken"):
        assert told.count(broken) == 1, told


def test_its_deploy_provisions_the_host(reported):
    facts = json.loads((reported.root / f"data/provision/naps/bedroom/{FAMILY}.json").read_text())
    (host,) = facts["hosts"].values()
    assert facts["families"] == [FAMILY] and not host["problems"]
    assert "python3" in host["packages"] or "python3" in json.dumps(host["tools"])


def test_its_probe_measures_every_case_in_every_block_and_gives_tidy_tables(reported):
    tables = reported.root / "data/tidy/naps" / FAMILY
    observations = pl.read_parquet(tables / "observations.parquet")
    assert observations.filter(metric="overslept")["status"].to_list() == ["ok"] * 24
    assert observations.filter(metric="overslept")["value"].min() > 0
    assert pl.read_parquet(tables / "naps.parquet").height == 24 * 5
    assert sorted(pl.read_parquet(tables / "cases.parquet")["nap_s"].unique()) == [0.001, 0.005]


def test_its_page_has_its_own_exhibits_and_a_comparison_with_verdicts(reported, page):
    exports = reported.reports / FAMILY
    assert {path.stem for path in (exports / "figures").glob("*.svg")} >= {"naps-by-way", "overslept", "ways"}
    assert (exports / "tables" / "worst-naps.csv").is_file()
    with (exports / "tables" / "ways.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 and all(re.match(r"(better|worse|equivalent|inconclusive)\b", r["Verdict"]) for r in rows)
    assert "lower is better" in (exports / "figures" / "ways.svg").read_text()
    assert "Naps that last too long" in page and "Overslept" in page


def test_its_lint_finds_and_a_study_acknowledges_it(page):
    assert "brief-nap" in page and "They are meant to be brief." in page


def test_its_page_says_which_primary_metric_no_trial_gave(page):
    assert "No trial gave dreams, which the family declares as primary." in page


def test_the_overview_and_the_published_page_show_it(reported):
    overview = (reported.root / "reports" / "index.html").read_text()
    for said in (f"{FAMILY}.html", "Naps that last too long", "Naps of 1ms"):
        assert said in overview
    published = (reported.reports / "published.html").read_text()
    assert "How much longer naps last elsewhere." in published and "Naps were measured here." in published
    assert "60\u00a0µs" in published


@pytest.mark.parametrize(
    ("part", "planned"),
    [("page/naps.py", {"make_page"}), ("parse.py", {"tidy_family", "make_page"}), ("run.py", set())],
)
def test_an_edit_of_it_makes_again_what_it_decides_and_measures_nothing(reported, part, planned):
    file = reported.package / FAMILY / part
    before = file.read_text()
    file.write_text(before + "\n# edited\n")
    try:
        done = reported.snakemake("report", "--configfile", "config/study.yaml", "-n")
    finally:
        file.write_text(before)
    rules = {rule for rule in ("measure_session", "tidy_family", "make_page") if f"rule {rule}" in done.stdout}
    assert rules == planned


def test_existing_outputs_are_imported(reported, tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps({"sixth": 1, "way": "poll", "length_s": 0.002, "lasted_s": [0.0021, 0.0023]}))
    done = reported.run("benchstudy", "import", "--study", "config/study.yaml", kept)
    assert "imported" in done.stdout and "way=poll,nap=2ms" in done.stdout


def test_check_commands_reference_and_prose_know_it(reported):
    for broken in (reported.root / "envs" / "broken", reported.package / "broken_bench"):  # the tables need all others
        shutil.rmtree(broken)
    # In one process, because each new one would spend more time on imports than on work.
    each = [["check", "config/study.yaml"], ["nap"], ["prose"]]
    script = f"""import sys
from benchstudy.commands import cli, reference
for words in {each}:
    assert cli.main(words) == 0
    print("--")
sys.argv[1:] = ["config/README.md"]
reference.main()
"""
    checked, napped, prose = reported.run("python", "-c", script).stdout.split("--\n")[:3]
    assert "2 lengths of naps can be taken by" in checked and "every host is ready" in checked
    assert napped == "rested\n" and prose == ""
    text = (reported.root / "config" / "README.md").read_text()
    assert "## The family `sixth_family`" in text and "how long each nap should last" in text


# What names a family outside its own folder, and why it has to.
ALLOWED = {
    "model/declared.py": "examples in descriptions of keys",
    "model/study.py": "examples in descriptions of keys",
}
WORDS = ("command",)


def test_nothing_outside_a_familys_folder_names_it():
    names = [path.name for path in (CHECKOUT / "src/benchstudy/families").iterdir() if (path / "family.py").is_file()]
    assert len(names) == 6
    # "fio" as a word; a ZipInfo has a file_size of its own.
    # A name that is also an ordinary word only counts as part of a package or path.
    own = [name for name in names if name not in WORDS]
    named = re.compile(rf"(?<![\w.])({'|'.join(own)}|fio[_-]\w+)\b(?!_)|families[./]({'|'.join(WORDS)})\b")
    source, found = CHECKOUT / "src" / "benchstudy", set()
    for root, pattern in ((source, "*.py"), (source, "*.html.j2"), (CHECKOUT / "workflow", "*")):
        for path in root.rglob(pattern):
            if path.is_file() and "families" not in path.relative_to(root).parts and "__pycache__" not in path.parts:
                name = str(path.relative_to(root))
                if named.search(path.read_text(errors="replace")) and name not in ALLOWED:
                    found.add(name)
    assert found == set()
