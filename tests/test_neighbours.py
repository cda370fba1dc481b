"""Others on a host: what the agent counts, what a session makes of it, and what reports say."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from neighbour_study import Lab, Spin
from sshd_hosts import SshdHost
from waiting import until

from benchstudy.model import interference, registry


@pytest.fixture(scope="module")
def sshd(tmp_path_factory) -> Iterator[SshdHost]:
    folder = tmp_path_factory.mktemp("host")
    with SshdHost(folder / "sshd", environment={"BENCHSTUDY_HOST_LOCK": str(folder / "host.lock")}) as host:
        yield host
    until(lambda: subprocess.run(["pgrep", "-f", str(folder)], stdout=subprocess.DEVNULL).returncode == 1)


@pytest.fixture
def lab(tmp_path, sshd, monkeypatch) -> Lab:
    known, get = {**registry.packages(), "spin": "neighbour_study"}, registry.get
    monkeypatch.setattr(registry, "packages", lambda: known)
    monkeypatch.setattr(registry, "get", lambda name: Spin() if name == "spin" else get(name))
    monkeypatch.setattr(Spin, "beside", None)
    return Lab(tmp_path, sshd)


def test_what_we_use_is_ours_also_of_what_ended(lab):
    lab.hold()
    (found,) = interference.windows(lab.document).values()
    print(found)
    print(json.dumps(lab.document["commands"][0]["hosts"]["h"]["readings"][-1], indent=1))
    assert found.values["ours_cpu"] == pytest.approx(0.5, abs=0.2)
