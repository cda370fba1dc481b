"""Moving files: benchstudy's SSH against scp on the same link, and whether re-keying stalls a stream.

    python benchmarks/transfers.py [--pairs 5] [--folder DIR]

Both sides are this machine, over a real sshd on loopback. A pair is our transfer and scp's (with its default cipher),
one after the other, in alternating order. The result is the median of the pairs' ratios. Our transfer includes SHA-256
on both sides; scp verifies nothing. Targets: files 1.1, trees 5, longest stall 1 s.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchstudy.hosts.remote import Remote

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from sshd_hosts import SshdHost

MIB = 1 << 20
BIG = 1024 * MIB
SMALL_FILES, SMALL_SIZE = 5000, 4096
STREAM = 1280 * MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    # In memory, because this compares the link, not the disk.
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the files lie")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        with SshdHost(folder / "sshd") as server, Remote("loopback", server.host) as remote:
            compare_with_scp(folder, server, remote, options.pairs)
        for label, rekeying in (("a key for 64 MiB", ["RekeyLimit 64M"]), ("one key for all", [])):
            server = SshdHost(folder / f"sshd-{len(rekeying)}", options=rekeying)
            with server, Remote("loopback", server.host) as remote:
                there, back = longest_stalls(remote)
                print(f"longest stall in {STREAM // MIB} MiB, {label}: to the host {there:.3f} s, from it {back:.3f} s")


def compare_with_scp(folder: Path, server: SshdHost, remote: Remote, pairs: int) -> None:
    big, tree = folder / "big", folder / "tree"
    big.mkdir()
    with open(big / "file", "wb") as file:
        for _ in range(BIG // MIB):
            file.write(os.urandom(MIB))
    tree.mkdir()
    for number in range(SMALL_FILES):
        (tree / f"{number:05d}").write_bytes(os.urandom(SMALL_SIZE))
    scp = ["scp", "-q", "-r", "-i", str(server.identity_file), "-P", str(server.port)]
    scp += ["-o", f"UserKnownHostsFile={server.known_hosts}"]
    out = folder / "out"

    def scp_from(source: Path) -> None:
        subprocess.run([*scp, f"{server.address}:{source}", str(out)], check=True)

    def scp_to(source: Path) -> None:
        subprocess.run([*scp, str(source), f"{server.address}:{out}"], check=True)

    report("get 1 GiB", lambda: remote.get_tree(str(big), out), lambda: scp_from(big), out, pairs, BIG / MIB, "MiB/s")
    report("put 1 GiB", lambda: remote.put_tree(big, str(out)), lambda: scp_to(big), out, pairs, BIG / MIB, "MiB/s")
    many = f"{SMALL_FILES} files of {SMALL_SIZE >> 10} KiB"
    report(
        f"get {many}",
        lambda: remote.get_tree(str(tree), out),
        lambda: scp_from(tree),
        out, pairs, SMALL_FILES, "files/s",
    )  # fmt: skip
    report(
        f"put {many}",
        lambda: remote.put_tree(tree, str(out)),
        lambda: scp_to(tree),
        out, pairs, SMALL_FILES, "files/s",
    )  # fmt: skip


def report(label: str, ours: Callable, scps: Callable, out: Path, pairs: int, amount: float, unit: str) -> None:
    """Print the medians of `pairs` interleaved pairs; one transfer moves `amount`."""
    durations: dict[Callable, list[float]] = {ours: [], scps: []}
    for number in range(pairs):
        for transfer in (ours, scps) if number % 2 else (scps, ours):
            remove(out)
            # So that neither side pays for writing back what the other left.
            os.sync()
            started = time.monotonic()
            transfer()
            durations[transfer].append(time.monotonic() - started)
    remove(out)
    ratios = sorted(theirs / own for own, theirs in zip(durations[ours], durations[scps], strict=True))
    own, theirs = (amount / statistics.median(durations[way]) for way in (ours, scps))
    print(
        f"{label}: {own:.0f} {unit}, scp {theirs:.0f} {unit}, ratio {statistics.median(ratios):.2f}"
        f" (pairs: {', '.join(f'{ratio:.2f}' for ratio in ratios)})",
        flush=True,
    )


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def longest_stalls(remote: Remote) -> tuple[float, float]:
    """The longest time in seconds in which a stream did not advance: to the host, from the host."""
    block = bytes(MIB)
    to_host = from_host = 0.0
    with remote.open(["sh", "-c", "cat > /dev/null"]) as process:
        for _ in range(STREAM // MIB):
            started = time.monotonic()
            process.write(block)
            to_host = max(to_host, time.monotonic() - started)
        process.close_stdin()
        process.wait(60)
    with remote.open(["head", "-c", str(STREAM), "/dev/zero"]) as process:
        started = time.monotonic()
        while process.read_output(60):
            from_host = max(from_host, time.monotonic() - started)
            started = time.monotonic()
    return to_host, from_host


if __name__ == "__main__":
    main()
