"""Do Mattermost's simulated users do what those of its own load test do? The server's own counters decide.

    python benchmarks/users_fidelity.py [RELEASE …] [--seconds 300]      # ours, against the recorded counters
    python benchmarks/users_fidelity.py 9.9 --serve WHOSE --record FILE  # another load generator, run by hand

For each release, it starts a server with a data set of its own (needs root and the tools of
`mattermost-releases.yaml`). 40 users think for 2 s on average. When all are connected they go on for 30 s, and then the
counters of `/metrics` are read at the beginning and at the end. It prints the total variation distance (half the sum of
the differences of shares) of the mix of API handlers, and of store methods, to the recorded runs of the release with
the same length, and requests per user and second. With `--serve`, the server waits for users of any other kind (it
prints its address and their accounts), and adds what it counts to FILE.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from itertools import combinations
from math import isclose
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

os.environ.setdefault("BENCHSTUDY_TOOL_STORE", str(Path(__file__).resolve().parents[1] / ".benchstudy" / "tools"))

from load_test_study import FAMILY, study_of
from mattermost_small import NEWER_SERVER, SERVER, block_of, provisioned

from benchstudy.families.load_test.system import fresh_site, wait_for_targets
from benchstudy.families.load_test.users.config import Behaviour, LoadLevel
from benchstudy.families.load_test.users.run import run_load
from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.measuring.state import SessionState
from benchstudy.measuring.trial import TrialContext
from benchstudy.model import registry
from benchstudy.model.errors import TrialFailed

RECORDED = Path(__file__).with_name("users_of_the_original.json")
SIZES = {"users": 160, "teams": 2, "channels": 10, "posts": 5000, "direct-posts": 500}  # as in mattermost-this-machine
SERVERS = {"9.9": SERVER, "10.2": NEWER_SERVER}
SETTLE_S = 30.0
SAME_LENGTH = 0.1  # by which the lengths of compared runs may differ
COUNTED = {
    "api": ("mattermost_api_time_count", "handler"),
    "store": ("mattermost_db_store_time_count", "method"),
}
SESSION = "11111111-2222-4333-8444-555555555555"


def block():
    versions = [{"name": release, "services": {"postgres": server}} for release, server in SERVERS.items()]
    return block_of(SIZES, newer=True, versions=versions, loads=[{"name": "bounded", "users": 1, "duration": "1s"}])


def counters(url):
    """What the server has counted so far: {"api": {handler: requests}, "store": {method: calls}, "sockets": {…}}."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    found = {
        kind: Counter(
            {
                name: sum(
                    float(value) for value in re.findall(rf'(?m)^{metric}\{{[^}}]*{label}="{name}".*\}} (\S+)$', text)
                )
                for name in set(re.findall(rf'(?m)^{metric}\{{[^}}]*{label}="([^"]*)"', text))
            }
        )
        for kind, (metric, label) in COUNTED.items()
    }
    sockets, answering_s = (
        sum(float(value) for value in re.findall(rf"(?m)^{metric}(?:\{{.*\}})? (\S+)$", text))
        for metric in ("mattermost_http_websockets_total", "mattermost_api_time_sum")
    )
    return {**found, "sockets": sockets, "answering_s": answering_s}


def watched(url, users, seconds):
    """What is counted in this many seconds, from 30 s after all users are connected."""
    while counters(url)["sockets"] < users:
        time.sleep(0.5)
    print(f"{users} users are connected", flush=True)
    time.sleep(SETTLE_S)
    begun, before = time.monotonic(), counters(url)
    time.sleep(seconds)
    after, took_s = counters(url), time.monotonic() - begun
    mixes = {kind: after[kind] - before[kind] for kind in COUNTED}
    mean_ms = 1000 * (after["answering_s"] - before["answering_s"]) / mixes["api"].total()
    counted = {kind: {name: int(mix[name]) for name in sorted(mix)} for kind, mix in mixes.items()}
    return {"users": users, "seconds": round(took_s, 2), "api_mean_ms": round(mean_ms, 3), **counted}


def distance(one, other):
    """Total variation distance of two mixes: 0 for equal shares, 1 for mixes that have nothing in common."""
    totals = sum(one.values()), sum(other.values())
    return sum(abs(one.get(n, 0) / totals[0] - other.get(n, 0) / totals[1]) for n in one.keys() | other.keys()) / 2


def rate(run):
    """Requests per user and second."""
    return sum(run["api"].values()) / run["users"] / run["seconds"]


@contextmanager
def session(root):
    with provisioned(root, block()) as host:
        study = study_of(block(), host)
        with Remote("here", study.hosts["here"]) as remote:
            agent = HostAgent.deploy(
                remote, lease_s=60.0, reconnect_s=10.0, on_event=print, extensions=registry.get(FAMILY).extensions
            )
            with agent.lock(SESSION, {"user": "benchmarks"}):
                state = SessionState(SESSION, study.session("bench", FAMILY), {"here": agent}, root / "session", print)
                try:
                    yield state
                finally:
                    state.close()


@contextmanager
def server(state, folder, release, users):
    """(trial, site, address of the server's counters)"""
    folder.mkdir()
    trial = TrialContext(state, folder.name, folder, 1)
    with fresh_site(trial, release, "postgres", users) as up:
        wait_for_targets(trial, up)
        yield trial, up, f"http://{up.server.address}:{up.server.ports['metrics']}/metrics"


def ours(trial, up, url, options):
    over = threading.Event()
    seen = {}

    def watch():
        try:
            seen.update(watched(url, options.users, options.seconds))
        finally:
            over.set()

    threading.Thread(target=watch, daemon=True).start()
    # A login takes a tenth of a second of the server's processor.
    load = LoadLevel(name="bounded", users=options.users, ramp=options.users / 2, duration=options.seconds + 600)
    behaviour = Behaviour(think_time={"least": "1s", "mean": options.think}, seed=options.seed)
    try:
        run_load(trial, load, behaviour, up, over)
    except TrialFailed:
        if not seen:  # otherwise it ended as planned
            raise
    return seen


def record(path, run):
    """Add a run to the file, one per line."""
    known = json.loads(path.read_text()) if path.exists() else {"runs": []}
    runs = ",\n".join(json.dumps(one) for one in [*known.pop("runs"), run])
    about = "".join(f"{json.dumps(name)}: {json.dumps(text, ensure_ascii=False)},\n" for name, text in known.items())
    path.write_text(f'{{{about}"runs": [\n{runs}\n]}}\n')


def compare(run):
    """Compare a run with all recorded runs of the original together."""
    known = json.loads(RECORDED.read_text())["runs"]
    same = [
        one
        for one in known
        if all(one[key] == run[key] for key in ("release", "think_s", "users"))
        # The longer a run, the smaller the share of requests by users who see a channel for the first time.
        and isclose(one["seconds"], run["seconds"], rel_tol=SAME_LENGTH)
    ]
    print(f"\n{run['release']}, {run['think_s']:g} s think time: {rate(run):.2f} requests per user and second")
    if not same:
        print("  no comparable run of the original is recorded")
        return
    together = pooled(same)
    apart = {kind: distance(run[kind], together[kind]) for kind in COUNTED}
    print(
        f"  against {len(same)} runs of {same[0]['by']}: API {apart['api']:.3f}, store {apart['store']:.3f}, "
        f"requests {rate(run) / rate(together) - 1:+.1%}"
    )
    for one, other in combinations(same, 2):
        own = {kind: distance(one[kind], other[kind]) for kind in COUNTED}
        print(
            f"  two of those runs: API {own['api']:.3f}, store {own['store']:.3f}, "
            f"requests {rate(one) / rate(other) - 1:+.1%}"
        )
    for kind in COUNTED:
        print(f"  {kind}, largest differences (here/there): {', '.join(largest(run[kind], together[kind]))}")


def pooled(runs):
    mixes = {kind: sum((Counter(run[kind]) for run in runs), Counter()) for kind in COUNTED}
    return {"users": runs[0]["users"], "seconds": sum(run["seconds"] for run in runs), **mixes}


def largest(one, other):
    """The largest differences, as shares of our requests and of theirs."""
    totals = sum(one.values()), sum(other.values())
    shares = {n: (one.get(n, 0) / totals[0], other.get(n, 0) / totals[1]) for n in one.keys() | other.keys()}
    ordered = sorted(shares.items(), key=lambda item: -abs(item[1][0] - item[1][1]))
    return [f"{name} {100 * a:.2f}/{100 * b:.2f} %" for name, (a, b) in ordered[:8]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=list(SERVERS))
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1, help="seed of what our users choose")
    parser.add_argument("--think", type=float, default=2.0, help="mean think time in s")
    parser.add_argument("--serve", metavar="WHOSE", help="wait for other users, such as those of load-test v1.19.0")
    parser.add_argument("--record", type=Path, help="add what was counted to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as state:
        for number, release in enumerate(options.releases):
            with server(state, Path(folder) / f"users-{number}", release, options.users) as (trial, up, url):
                if options.serve:
                    accounts = Path(folder) / "accounts.json"
                    accounts.write_bytes(up.accounts.content)
                    print(f"{release}: {up.url}, accounts in {accounts}, counters {url}", flush=True)
                    run = watched(url, options.users, options.seconds)
                else:
                    run = ours(trial, up, url, options)
                run = {"release": release, "by": options.serve or "ours", "think_s": options.think, **run}
                if options.record:
                    record(options.record, run)
                if RECORDED.exists():
                    compare(run)


if __name__ == "__main__":
    main()
