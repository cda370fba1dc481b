"""Readers of generator results, from which a search decides on its next rate. Pure."""

from pathlib import Path

from benchstudy.families.log_write.growth import Growth, growth
from benchstudy.families.log_write.hammer_log import HammerLog, parse_log
from benchstudy.families.log_write.layout import LOAD, RESULT
from benchstudy.families.log_write.logbench import LogbenchResult, parse_logbench
from benchstudy.families.log_write.search import Window
from benchstudy.families.log_write.shards import read_shards, together
from benchstudy.families.shared.files import read_text
from benchstudy.model.clients import CLIENTS_FILE


def read_written(folder: Path) -> LogbenchResult:
    """Read the result of logbench in the folder of its command, or of several clients combined. Raises ParseError."""
    if (folder / CLIENTS_FILE).is_file():
        return together(*read_shards(folder))
    return parse_logbench(read_text(folder / "files" / RESULT))


def read_hammer_log(files: Path) -> HammerLog:
    """Read the log of the hammer. Raises ParseError."""
    return parse_log(read_text(files / LOAD / "stderr"))


def window_of(folder: Path, cpus: int, publish_interval_s: float) -> Window:
    """Read one window of the capacity search. Raises ParseError."""
    written = read_written(folder)
    grown = grown_in(written, publish_interval_s)
    return Window(
        offered_per_s=written.rate_per_s,
        sent=written.window.sent,
        dropped=written.window.dropped,
        achieved_per_s=grown.slope if grown else 0.0,
        errors=written.window.errors,
        pushback=written.window.pushback,
        integrate_p99_s=written.integrate_times.quantile(0.99),
        not_integrated=written.proofs.not_integrated,
        expected_share=new_share_of(written),
        generator_cpu=own_cpu(written, cpus),
    )


def grown_in(written: LogbenchResult, publish_interval_s: float) -> Growth | None:
    """Return the growth of the tree in the window of a run."""
    seen = [(row.t_s, row.size) for row in written.checkpoints]
    return growth(seen, written.warm_up_s, written.warm_up_s + written.duration_s, publish_interval_s)


def new_share_of(written: LogbenchResult) -> float:
    """Return the share of new leaves among the accepted leaves of the window.

    Servers without antispam recognise recent leaves, too: they remember some 100 000 leaves.
    """
    window = written.window
    return 1.0 - window.duplicates / window.accepted if window.accepted else 1.0


def own_cpu(written: LogbenchResult, cpus: int) -> float:
    """Return the share of its `cpus` that logbench used in the window."""
    return (written.cpu_user_s + written.cpu_system_s) / (written.duration_s * cpus)
