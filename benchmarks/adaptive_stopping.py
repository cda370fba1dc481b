"""What stopping a session early (`until`) costs and saves, by simulation. The session stops when every case is precise.

    python benchmarks/adaptive_stopping.py [--sessions 20000] [--replay data/tidy/STUDY/FAMILY METRIC]

It answers three questions. How often does the printed 95 % interval still cover the true median after a stop that
looked at it? How many blocks does a session take, compared with a fixed number that reaches the same precision as
surely? How does this affect the ratio of two cases? All values are relative to `until`, so one spread stands for every
pair with the same quotient. `--replay` answers the first two questions for a long real session, whose trials have the
host's own distribution and memory.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np

from benchstudy.model.stopping import Stopping
from benchstudy.statistics.comparisons import Arm, compare
from benchstudy.statistics.stats import precision, summarise

UNTIL = 0.05
RULE = Stopping(6, 30, UNTIL)
SPREADS = (0.03, 0.05, 0.07, 0.09, 0.12, 0.15, 0.2)
SURE = 0.9  # the probability with which a fixed number must reach the precision, too, to count as equal
MEMORY = 0.3  # correlation of a trial with the one in the block before

Simulated = Callable[[np.random.Generator, float, tuple[int, int]], np.ndarray]


def normal(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    return 1 + spread * random.standard_normal(size)


def lognormal(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    return np.exp(math.sqrt(math.log1p(spread**2)) * random.standard_normal(size))


def bimodal(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    """Three in ten trials are slow, by four times what the others differ."""
    return 1 + spread * (0.5 * random.standard_normal(size) + 2.0 * (random.random(size) < 0.3))


def heavy_tails(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    return np.exp(spread * random.standard_t(3, size) / math.sqrt(3))


def flat(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    return 1 + spread * math.sqrt(12) * (random.random(size) - 0.5)


def two_modes(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    """Half of the trials are slow, so that hardly any value lies near the median."""
    return 1 + spread * (0.2 * random.standard_normal(size) + np.where(random.random(size) < 0.5, 1, -1))


def with_memory(random: np.random.Generator, spread: float, size: tuple[int, int]) -> np.ndarray:
    noise = random.standard_normal(size)
    for block in range(1, size[1]):
        noise[:, block] = MEMORY * noise[:, block - 1] + math.sqrt(1 - MEMORY**2) * noise[:, block]
    return 1 + spread * noise


SHAPES: dict[str, Simulated] = {
    "normal": normal,
    "lognormal": lognormal,
    "bimodal": bimodal,
    "heavy tails": heavy_tails,
    "flat": flat,
    "two equal modes": two_modes,
    f"memory of {MEMORY}": with_memory,
}


def looks(rule: Stopping) -> list[int]:
    found = [rule.look_from(0)]
    while found[-1] < rule.most:
        found.append(rule.look_after(found[-1]))
    return found


@cache
def _ranks(n: int) -> tuple[int, int]:
    made = summarise(range(n))
    return int(made.interval_low), int(made.interval_high)


def intervals(trials: np.ndarray, blocks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision and both ends of the interval, of the first `blocks` trials (columns) of each session (rows)."""
    ordered = np.sort(trials[:, :blocks], axis=1)
    low, high = (ordered[:, rank] for rank in _ranks(blocks))
    found = (high - low) / 2 / np.abs(np.median(ordered, axis=1))
    assert math.isclose(found[0], precision(summarise(trials[0, :blocks].tolist())) or 0.0), "the package's own figure"
    return found, low, high


def stopped(trials: np.ndarray, at: Sequence[int], until: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks at which each session stops if it looks `at` these, and the interval that it then prints."""
    blocks = np.zeros(len(trials), int)
    ends = np.zeros((2, len(trials)))
    for n in at:
        found, low, high = intervals(trials, n)
        now = (blocks == 0) & ((found <= until) | (n == at[-1]))
        blocks[now], ends[:, now] = n, (low[now], high[now])
    return blocks, *ends


def covered(truth: float, low: np.ndarray, high: np.ndarray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


def enough_fixed(trials: np.ndarray, until: float) -> int | None:
    """The smallest fixed number of blocks that makes SURE of the sessions as precise; None if there is none."""
    sizes = range(6, trials.shape[1] + 1)
    return next((n for n in sizes if (intervals(trials, n)[0] <= until).mean() >= SURE), None)


def report_coverage(random: np.random.Generator, sessions: int) -> None:
    ways = {
        "looks of the rule": looks(RULE),
        "a look at every block": list(range(RULE.fewest, RULE.most + 1)),
        "a fixed 15 blocks": [15],
    }
    print(f"\n95 % interval covers the true median, % (mean blocks); until ±{100 * UNTIL:g} %, looks at {looks(RULE)}")
    print(f"{'':22}{'':18}" + "".join(f"{100 * s:>13.0f} %" for s in SPREADS))
    for name, shape in SHAPES.items():
        drawn = [(shape(random, spread, (sessions, RULE.most)), _truth(shape, spread)) for spread in SPREADS]
        for way, at in ways.items():
            cells = []
            for trials, truth in drawn:
                blocks, low, high = stopped(trials, at, UNTIL)
                cells.append(f"{100 * covered(truth, low, high):7.1f} ({blocks.mean():4.1f})")
            print(f"{name:22}{way:24}" + " ".join(cells))


def _truth(shape: Simulated, spread: float) -> float:
    return float(np.median(shape(np.random.default_rng(1), spread, (2_000_000, 1))))


def report_growth(random: np.random.Generator, sessions: int) -> None:
    """How far apart looks must be: more blocks mean more looks, and each look is another chance to stop too early."""
    print("\n95 % interval covers the true median, % (normal, at most 60 blocks), by growth between looks")
    drawn = [normal(random, spread, (sessions, 60)) for spread in SPREADS]
    for growth in (1.0, 1.3, 1.5, 2.0):
        with mock.patch("benchstudy.model.stopping._GROWTH", growth):
            at = looks(Stopping(6, 60, UNTIL)) if growth > 1 else list(range(6, 61))
        found = [stopped(trials, at, UNTIL) for trials in drawn]
        cells = (f"{100 * covered(1.0, low, high):6.1f} ({blocks.mean():4.1f})" for blocks, low, high in found)
        print(f"  {growth} times, {len(at):2} looks: {' '.join(cells)}")


def report_savings(random: np.random.Generator, sessions: int) -> None:
    wide = Stopping(6, 90, UNTIL)
    print(f"\nmean blocks until ±{100 * UNTIL:g} %, and the fixed number that suffices in {100 * SURE:g} % of sessions")
    print(
        f"{'spread':>8} {'adaptive':>9} {'fixed':>6} {'saved':>6}   sessions of ten equal cases: adaptive, fixed, saved"
    )
    for spread in (0.02, 0.04, 0.06, 0.08, 0.1):
        trials = lognormal(random, spread, (sessions, wide.most))
        blocks, _, _ = stopped(trials, looks(wide), UNTIL)
        fixed = enough_fixed(trials, UNTIL)
        ten = _ten_cases(trials, wide)
        print(f"{100 * spread:6.0f} % {_saved(blocks.mean(), fixed)}   {_saved(*ten)}")
    # The spread is unknown in advance, so the fixed number has to be right for the noisiest host.
    spreads = np.exp(random.uniform(math.log(0.01), math.log(0.08), sessions))[:, None]
    trials = np.exp(spreads * random.standard_normal((sessions, wide.most)))
    blocks, _, _ = stopped(trials, looks(wide), UNTIL)
    # The cases of a session share their host, and thus its spread.
    alike = np.repeat(spreads[: sessions // 10], 10, axis=0)
    ten = _ten_cases(np.exp(alike * random.standard_normal((len(alike), wide.most))), wide)
    print(f"1 to 8 % {_saved(blocks.mean(), enough_fixed(trials, UNTIL))}   {_saved(*ten)}")


def _ten_cases(trials: np.ndarray, rule: Stopping) -> tuple[float, int | None]:
    """Sessions of ten cases each: the blocks until the last case is precise, and the fixed number for all ten."""
    ten = trials[: len(trials) // 10 * 10].reshape(-1, 10, trials.shape[1])
    at, blocks = looks(rule), np.zeros(len(ten), int)
    for n in at:
        within = (intervals(ten.reshape(-1, ten.shape[2]), n)[0] <= rule.until).reshape(-1, 10).all(axis=1)
        blocks[(blocks == 0) & (within | (n == at[-1]))] = n
    sizes = range(6, rule.most + 1)
    flat = ten.reshape(-1, ten.shape[2])
    good = (n for n in sizes if (intervals(flat, n)[0] <= rule.until).reshape(-1, 10).all(axis=1).mean() >= SURE)
    return float(blocks.mean()), next(good, None)


def _saved(adaptive: float, fixed: int | None) -> str:
    if fixed is None:
        return f"{adaptive:9.1f}   >90"
    return f"{adaptive:9.1f} {fixed:6d} {100 * (1 - adaptive / fixed):4.0f} %"


def report_ratios(random: np.random.Generator, sessions: int) -> None:
    """Two cases that share a drift, in one session that stops when both are precise."""
    print("\n95 % interval of a ratio covers the true ratio after the same stop, % (by shape and spread)")
    for name in ("normal", "lognormal", "bimodal"):
        for spread in (0.05, 0.09):
            drift = 1 + 0.3 * (with_memory(random, spread, (sessions, RULE.most)) - 1)
            sides = [SHAPES[name](random, spread, (sessions, RULE.most)) * drift for _ in range(2)]
            hits = [_ratio_covers(a, b) for a, b in zip(*sides, strict=True)]
            print(f"  {name:10} {100 * spread:3.0f} %: {100 * np.mean(hits):.1f}")


def _ratio_covers(base: np.ndarray, other: np.ndarray) -> bool:
    for blocks in looks(RULE):
        within = [(precision(summarise(side[:blocks])) or 0) <= UNTIL for side in (base, other)]
        if all(within) or blocks == RULE.most:
            names = tuple(range(blocks))
            arms = [Arm(n, "s", tuple(side[:blocks]), names) for n, side in (("base", base), ("other", other))]
            made = compare(*arms, margin=0.05, better="lower")
            return made.evidence is not None and made.evidence.low <= 1 <= made.evidence.high
    raise AssertionError("the last look ends a session")


def report_replay(tidy: Path, metric: str, random: np.random.Generator) -> None:
    """Replay a long real session from each of its blocks: later blocks keep their order, and so their memory."""
    import polars as pl

    rows = pl.read_parquet(tidy / "observations.parquet").filter(pl.col("metric") == metric).sort("block")
    print(f"\n{metric} of {tidy}, replayed from every block, wrapping around at the end")
    for (case,), found in rows.group_by("case", maintain_order=True):
        values = found["value"].drop_nulls().to_numpy()
        if len(values) < 2 * RULE.most:
            print(f"  {case}: {len(values)} trials, but a replay needs {2 * RULE.most}")
            continue
        around = np.concatenate([values, values[: RULE.most]])
        trials = np.stack([around[begin : begin + RULE.most] for begin in range(len(values))])
        truth, memory = float(np.median(values)), float(np.corrcoef(values[1:], values[:-1])[0, 1])
        spread = float(values.std(ddof=1) / values.mean())
        for until in (0.05, 0.1, 0.2):
            blocks, low, high = stopped(trials, looks(RULE), until)
            fixed = enough_fixed(trials, until)
            as_many = covered(truth, *stopped(trials, [round(blocks.mean())], until)[1:])
            print(
                f"  {case}: spread {100 * spread:.0f} %, memory {memory:.2f}, until ±{100 * until:g} %: "
                f"{blocks.mean():.1f} blocks (fixed: {fixed or f'over {RULE.most}'}), covers "
                f"{100 * covered(truth, low, high):.0f} %, as many fixed blocks cover {100 * as_many:.0f} %"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sessions", type=int, default=20_000, help="simulated sessions per kind (default: %(default)s)"
    )
    parser.add_argument("--replay", nargs=2, metavar=("TIDY", "METRIC"), help="replay a long real session instead")
    arguments = parser.parse_args()
    random = np.random.default_rng(20_240_229)
    if arguments.replay:
        return report_replay(Path(arguments.replay[0]), arguments.replay[1], random)
    report_coverage(random, arguments.sessions)
    report_growth(random, arguments.sessions)
    report_savings(random, arguments.sessions)
    report_ratios(random, min(arguments.sessions, 4_000))
    return None


if __name__ == "__main__":
    main()
