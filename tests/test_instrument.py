"""The hash of the code that measured: it covers all that decides what is executed, and nothing that only shows it."""

import pytest
from conftest import Project

FAMILIES = ("file_size", "fio", "http_concurrency", "load_test")
DIGESTS = (
    f"from benchstudy.measuring.instrument import instrument_sha256 as sha; print(*(sha(name) for name in {FAMILIES}))"
)
ALL, NONE = set(FAMILIES), set()


@pytest.mark.parametrize(
    ("file", "families"),
    [
        ("agent/supervisor.py", ALL),
        ("agent/s3_objects.py", ALL),
        ("trial.py", ALL),
        ("sessionstate.py", ALL),
        ("hostcheck.py", NONE),
        ("hostcommands.py", ALL),
        ("shipping.py", ALL),
        ("units.py", ALL),
        ("families/base.py", ALL),
        ("families/file_size.py", {"file_size"}),
        ("families/file_size_config.py", {"file_size"}),
        ("families/fio_config.py", {"fio"}),
        ("families/http_concurrency_config.py", {"http_concurrency"}),
        # Imported inside a function, and read by the load generators.
        ("families/http_load/trial.py", {"http_concurrency"}),
        ("families/http_load/wrk.lua", {"http_concurrency"}),
        # Sent to hosts, and not imported here.
        ("families/load_users/on_host/users.py", {"load_test"}),
        ("families/load_data/on_host/seed.py", {"load_test"}),
        ("parsers/locust.py", NONE),
        ("parsers/file_size.py", NONE),
        ("parsers/fio_json.py", NONE),
        ("parsers/wrk.py", NONE),
        ("report/charts.py", NONE),
        ("stats.py", NONE),
        ("tidy.py", NONE),
        ("progress.py", NONE),
        ("remote.py", NONE),
    ],
)
def test_what_an_edit_makes_another_instrument(project: Project, file: str, families: set[str]):
    before = digests(project)
    with (project.root / "src/benchstudy" / file).open("a") as source:
        source.write("\n# edited\n")
    after = digests(project)
    assert {name for name in ALL if before[name] != after[name]} == families


def digests(project: Project) -> dict[str, str]:
    printed = project.run("python", "-c", DIGESTS).stdout.split()
    return dict(zip(FAMILIES, printed, strict=True))
