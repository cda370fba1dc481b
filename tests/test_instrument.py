"""The hash of the measuring code covers everything that decides what is executed, and nothing that only shows it."""

import json

import pytest
from conftest import Project, copy_project

FAMILIES = ("file_size", "fio", "http_concurrency", "load_test", "log_write")
ALL, NONE = set(FAMILIES), set()
# The instruments that an edit of a file changes.
EDITS = {
    # All families: the agent, sizes and limits, and the code between a family and a host's commands.
    "agent/supervisor.py": ALL,
    "agent/limits.py": ALL,
    "model/units.py": ALL,
    "model/services.py": ALL,
    "measuring/trial.py": ALL,
    "measuring/state.py": ALL,
    "hosts/commands.py": ALL,
    "hosts/services.py": ALL,
    "hosts/shipping.py": ALL,
    # How bytes travel and are kept, what is looked at, printed and drawn.
    "hosts/remote.py": NONE,
    "hosts/transfer.py": NONE,
    "measuring/raw.py": NONE,
    "measuring/progress.py": NONE,
    "measuring/looks.py": NONE,
    "measuring/hostcheck.py": NONE,
    "model/study.py": NONE,
    "model/wording.py": NONE,
    "statistics/stats.py": NONE,
    "statistics/within_trial.py": NONE,
    "lints/load.py": NONE,
    "report/figures/charts.py": NONE,
    "jobs/tidy.py": NONE,
    # Families: commands, limits, what runs on hosts; then parsers, checks, imports, pages and their sentences.
    "families/file_size/run.py": {"file_size"},
    "families/file_size/config.py": {"file_size"},
    "families/file_size/on_host/s3_objects.py": {"file_size"},
    "families/file_size/parse.py": NONE,
    "families/file_size/check.py": NONE,
    "families/fio/run.py": {"fio"},
    "families/fio/config.py": {"fio"},
    "families/fio/on_host/small_files.py": {"fio"},
    "families/fio/fio_json.py": NONE,
    "families/fio/parse.py": NONE,
    "families/fio/imported.py": NONE,
    "families/fio/page/small_files.py": NONE,
    "families/http_concurrency/command.py": {"http_concurrency"},
    "families/http_concurrency/wrk.lua": {"http_concurrency"},
    "families/http_concurrency/k6.js": {"http_concurrency"},
    "families/http_concurrency/wrk.py": NONE,
    "families/http_concurrency/parse.py": NONE,
    "families/http_concurrency/page/load.py": NONE,
    "families/load_test/users/command.py": {"load_test"},
    "families/load_test/users/run.py": {"load_test"},
    "families/load_test/users/on_host/locustfile.py": {"load_test"},
    "families/load_test/users/on_host/users.py": {"load_test"},
    "../../envs/mattermost/users/actions.py": {"load_test"},
    "../../envs/mattermost/users/wording.py": {"load_test"},
    "../../envs/mattermost/data/content.py": {"load_test"},
    "../../envs/mattermost/data/unprivileged.sh": {"load_test"},
    "../../envs/load_test.py": NONE,
    "families/load_test/metric_names.py": {"load_test"},
    "families/load_test/prometheus_raw.py": {"load_test"},
    "families/load_test/prometheus_rates.py": NONE,
    "families/load_test/prometheus_samples.py": NONE,
    "families/load_test/locust.py": NONE,
    "families/load_test/page/load.py": NONE,
    "families/log_write/command.py": {"log_write"},
    "families/log_write/search.py": {"log_write"},
    "families/log_write/reading.py": {"log_write"},
    "families/log_write/sampling.py": {"log_write"},
    "families/log_write/on_host/log_samples.py": {"log_write"},
    "families/log_write/samples.py": NONE,
    "families/log_write/windows.py": NONE,
    "families/log_write/problems.py": NONE,
    "families/log_write/page/problems.py": NONE,
    "families/log_write/page/reasons.py": NONE,
    "families/log_write/hammer.py": NONE,
    "families/log_write/imported.py": NONE,
    "families/log_write/parse.py": NONE,
    "families/log_write/page/load.py": NONE,
    # Code that several families share.
    "families/shared/levels.py": {"http_concurrency", "log_write"},
    "families/shared/under_load.py": {"http_concurrency", "log_write"},
}
# Edits each file in turn, and prints the digests before the first edit and after each.
EDITING = f"""
import json, pathlib
from benchstudy.measuring.instrument import instrument_sha256
def digests():
    return {{name: instrument_sha256(name) for name in {FAMILIES}}}
found = {{"": digests()}}
for name in {list(EDITS)}:
    path = pathlib.Path("src/benchstudy", name)
    content = path.read_bytes()
    path.write_bytes(content + b"\\n# edited\\n")
    found[name] = digests()
    path.write_bytes(content)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def digests(tmp_path_factory) -> dict[str, dict[str, str]]:
    """By the edited file, "" for none, and by family."""
    project: Project = copy_project(tmp_path_factory.mktemp("instrument") / "project")
    return json.loads(project.run("python", "-c", EDITING).stdout)


@pytest.mark.parametrize("file", EDITS)
def test_what_an_edit_makes_another_instrument(digests, file):
    assert {name for name in ALL if digests[file][name] != digests[""][name]} == EDITS[file]
