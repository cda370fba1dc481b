"""The parsers of Tessera's hammer on captured screens and logs (see data/tessera/README.md) and the page's boxes."""

import gzip
import json
import re
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from benchstudy.families.log_write.hammer import HammerScreen, parse_box, read_saved, recognise_box, replay
from benchstudy.families.log_write.hammer_log import HammerLog, parse_log
from benchstudy.families.log_write.page.problems import told
from benchstudy.families.log_write.problems import Problem, Rule, of_screen
from benchstudy.model.family import ParseError

DATA = Path(__file__).parent / "data" / "tessera"
PUBLISHED = Path(__file__).parents[1] / "data" / "published" / "tessera.csv"
# The page's boxes, by their names in the published table.
BOXES = {
    "posix": ("12-core-8GB-sas", "no"),
    "posix-antispam": ("12-core-8GB-sas", "yes"),
    "e2-micro": ("e2-micro", None),
    "cloudsql": ("e2-micro-cloudsql", None),
    "mysql": ("e2-micro-mysql", None),
}


def page(name: str) -> str:
    return (DATA / f"page-{name}.txt").read_text()


@cache
def recording(name: str) -> bytes:
    return gzip.decompress((DATA / f"hammer-{name}.typescript.gz").read_bytes())


@cache
def screens(name: str) -> list[HammerScreen]:
    return replay(recording(name))


def log(name: str) -> HammerLog:
    return parse_log((DATA / f"hammer-{name}.stderr").read_text())


def size_at(log: HammerLog, moment_s: float) -> int:
    return [size for t_s, size in log.checkpoints if t_s <= moment_s][-1]


def rules(screen: HammerScreen) -> list[Rule]:
    return [problem.rule for problem in of_screen(screen)]


# --- the page's boxes -----------------------------------------------------------------------------------------


def test_every_field_of_a_box():
    assert parse_box(page("e2-micro")) == HammerScreen(
        read_workers=184,
        read_max_per_s=0,
        read_oversupply=0,
        write_workers=600,
        write_max_per_s=1758,
        oversupply=0,
        tree_size=1882477,
        qps=1587,
        window_s=30,
        queue_min_s=0.149,
        queue_avg_s=0.371,
        queue_max_s=0.692,
        integrate_min_s=0.569,
        integrate_avg_s=1.191,
        integrate_max_s=1.878,
    )


@pytest.mark.parametrize("name", BOXES)
def test_the_published_figures_are_those_of_the_boxes(name: str):
    resources, antispam = BOXES[name]
    rows = pl.read_csv(PUBLISHED).filter(
        pl.col("section").str.ends_with(": box") & (pl.col("resources") == resources),
        pl.col("antispam").is_null() if antispam is None else pl.col("antispam") == antispam,
    )
    box = parse_box(page(name))
    expected = {
        ("read", "workers"): box.read_workers,
        ("read", "max_rate"): box.read_max_per_s,
        ("read", "oversupply"): box.read_oversupply,
        ("write", "workers"): box.write_workers,
        ("write", "max_rate"): box.write_max_per_s,
        ("write", "oversupply"): box.oversupply,
        ("write", "tree_size"): box.tree_size,
        ("write", "qps"): box.qps,
        ("write", "window"): box.window_s,
        **{
            ("write", f"{kind}_{which}"): getattr(box, f"{kind}_{which}_s")
            for kind in ("queue", "integrate")
            for which in ("min", "avg", "max")
        },
    }
    assert {(row["op"], row["statistic"]): row["value"] for row in rows.iter_rows(named=True)} == expected


def test_what_the_boxes_do_not_mean():
    """All five asked for more than the tree grew by. Their writers bounded two; one is beyond what is possible."""
    assert {name: rules(parse_box(page(name))) for name in BOXES} == {
        "posix": ["offered", "too-many-writers", "means"],
        "posix-antispam": ["offered", "means"],
        "e2-micro": ["offered", "writers", "means"],
        "cloudsql": ["offered", "means"],
        "mysql": ["offered", "means"],
    }
    assert "3249 writers, but there are 3000" in told([*of_screen(parse_box(page("posix")))][1])
    assert "589 of 600 writers were waiting for an answer" in told([*of_screen(parse_box(page("e2-micro")))][1])


OK = replace(
    parse_box((DATA / "page-e2-micro.txt").read_text()), write_max_per_s=1000, qps=1000, queue_avg_s=0.5, at_s=30.0
)  # of 600 writers, 500 wait for an answer


@pytest.mark.parametrize(
    ("changes", "rule", "facts"),
    [
        ({"qps": 990}, None, {}),
        ({"qps": 989}, "offered", {"offered": 1000, "qps": 989, "share": pytest.approx(0.989)}),
        ({"oversupply": 1}, "oversupply", {"oversupply": 1, "offered": 1000, "writers": 600}),
        ({"queue_avg_s": 0.539}, None, {}),
        ({"queue_avg_s": 0.54}, "writers", {"busy": pytest.approx(540), "writers": 600}),
        ({"queue_avg_s": 0.612}, "writers", {"busy": pytest.approx(612), "writers": 600}),
        (
            {"queue_avg_s": 0.613},
            "too-many-writers",
            {"busy": pytest.approx(613), "writers": 600, "qps": 1000, "queue_s": 0.613},
        ),
        ({"at_s": 29.5}, "window", {"qps": 1000, "window_s": 30, "covered_s": 29.5}),
        # Its 1000/s may be 999.5/s, which are 29 985 leaves in 30 s.
        ({"at_s": None, "tree_size": 29_985}, None, {}),
        (
            {"at_s": None, "tree_size": 29_984},
            "longer-than-the-log",
            {"qps": 1000, "window_s": 30, "size": 29_984, "longest_s": pytest.approx(29.984)},
        ),
        ({"queue_min_s": 0.5}, None, {}),
        ({"queue_min_s": 0.51}, "order", {"times": "queue", "min_s": 0.51, "avg_s": 0.5, "max_s": 0.692}),
        (
            {"integrate_max_s": 1.19},
            "order",
            {"times": "integrate", "min_s": 0.569, "avg_s": 1.191, "max_s": 1.19},
        ),
    ],
)
def test_a_figure_misleads_from_its_threshold_on(changes, rule, facts):
    *found, always = of_screen(replace(OK, **changes))
    assert [(problem.rule, dict(problem.facts)) for problem in found] == ([(rule, facts)] if rule else [])
    assert told(always).startswith("min/avg/max of queue and integrate are over at most the last 30 tick means")


def test_a_problem_is_kept_as_a_value_and_an_old_one_as_it_was_told():
    for problem in of_screen(parse_box(page("posix"))):
        assert Problem.of_note(json.loads(json.dumps(problem.note))) == problem
    late = told(Problem(Rule.LATE, {"late_s": 0.13}))
    assert late == "1 % of the leaves were sent 0.13 s late or more: the generator did not keep up with its schedule"
    old = Problem.of_note("late: 1 % of the leaves were begun 0.2 s late or more: the generator was the limit")
    assert old.rule is Rule.LATE
    assert told(old) == "1 % of the leaves were begun 0.2 s late or more: the generator was the limit"


@pytest.mark.parametrize("name", BOXES)
def test_a_box_is_drawn_as_it_was(name: str):
    box = parse_box(page(name))
    drawn = box.box()
    assert parse_box(drawn) == box
    assert [line.strip("│ ") for line in drawn.splitlines()[1:6]] == [
        line.strip("│ ") for line in page(name).splitlines()[1:6]
    ]
    assert len({len(line) for line in drawn.splitlines()}) == 1


def test_boxes_in_other_words_without_borders_and_damaged():
    whole = page("mysql")
    bare = "\n".join(line.strip("│") for line in whole.splitlines()[1:6])
    quoted = "Look what I got:\n" + re.sub("^", "> ", whole, flags=re.M) + "\nfrom a VM, 3/s more.\n"
    for text in (bare, quoted, whole.replace("│", "|"), whole.replace("\n", "\r\n")):
        assert recognise_box(text) and parse_box(text) == parse_box(whole)
    for end in range(whole.index("(min/avg/max)", whole.index("integrate")) + len("(min/avg/max)")):
        with pytest.raises(ParseError):
            parse_box(whole[:end])
    with pytest.raises(ParseError, match="one text has 2 boxes of the hammer"):
        parse_box(whole + page("posix"))
    with pytest.raises(ParseError, match="line 'TreeSize' is missing"):
        parse_box(re.sub(".*TreeSize.*\n", "", whole))
    with pytest.raises(ParseError, match="damaged in its line 'TreeSize'"):
        parse_box(whole.replace("307qps", "3O7qps"))
    lines = whole.splitlines()
    with pytest.raises(ParseError, match="out of order"):
        parse_box("\n".join([*lines[:1], lines[2], lines[1], *lines[3:]]))
    three = "Read (1 workers). Oversupply\nTreeSize: 7\nWrite (1"  # lines of five
    assert recognise_box(three) and not recognise_box(three.replace("Oversupply", "")) and not recognise_box(three[:-4])
    for other in ("", "Time-in-queue: long", "Requests per second: 12"):
        assert not recognise_box(other)
        with pytest.raises(ParseError, match="not a box of the hammer"):
            parse_box(other)


# --- screens --------------------------------------------------------------------------------------------------


def test_the_last_screen_of_a_steady_run():
    last = screens("steady")[-1]
    assert (last.read_workers, last.write_workers, last.write_max_per_s, last.oversupply) == (8, 800, 400, 0)
    assert (last.tree_size, last.qps, last.window_s) == (16091, 383, 30)
    assert (last.queue_min_s, last.queue_avg_s, last.queue_max_s) == (0.030, 0.597, 1.019)
    assert (last.integrate_min_s, last.integrate_avg_s, last.integrate_max_s) == (0.585, 1.486, 2.465)
    assert (last.at_s, last.covered_s) == (43.0, 30)
    assert rules(last) == ["offered", "means"]


def test_delta_is_the_growth_over_the_seconds_that_it_covers():
    """Growth over the same 30 s, by the sizes on the screens and by the log next to them."""
    run = screens("steady")
    assert [screen.at_s for screen in run] == sorted({screen.at_s for screen in run})
    compared = 0
    for screen in run:
        before = [other.tree_size for other in run if other.at_s <= screen.at_s - screen.covered_s]
        growth = screen.tree_size - (before[-1] if before else 0)
        assert abs(growth / screen.covered_s - screen.qps) <= 0.5, "rounded to a whole number"
        assert ("window" in rules(screen)) == (screen.at_s < 30)
        compared += screen.at_s > 30
    assert compared > 10
    # The count of ticks is the time: each size is on the screen within a tick of its appearance in the log.
    beside = log("steady")
    updates = {size: t_s for t_s, size in beside.checkpoints}
    shown = {screen.tree_size: screen.at_s for screen in reversed(run) if screen.tree_size}
    waits = [shown[size] - updates[size] for size in shown]
    assert max(waits) - min(waits) < 0.55
    for screen in (screen for screen in run if screen.at_s > 32):
        then = screen.at_s - min(waits)
        assert (size_at(beside, then) - size_at(beside, then - 30)) / 30 == pytest.approx(screen.qps, rel=0.03)
    # In whole steps, the rate is the requested one, although Δ swings around it.
    (begin_s, begin), (end_s, end) = ([c for c in beside.checkpoints if c[0] <= until][-1] for until in (10, 41))
    assert (end - begin) / (end_s - begin_s) == pytest.approx(400, rel=0.02)
    assert min(screen.qps for screen in run if screen.at_s > 32) < 0.97 * 400


def test_what_an_oversupplied_run_and_one_with_errors_show():
    last = screens("oversupply")[-1]
    assert (last.write_workers, last.write_max_per_s, last.oversupply, last.qps) == (64, 500, 436, 50)
    assert rules(last) == ["offered", "oversupply", "window", "means"]
    assert last.busy_writers == pytest.approx(50.5)
    stalled = screens("errors")
    assert stalled[-1].tree_size == stalled[-3].tree_size == 719, "the server is gone, and the screen goes on"
    assert stalled[-1].qps < stalled[-3].qps
    assert screens("ended")[-1].at_s == 3.5, "hammer's screen stands still after --max_runtime"


def test_zeros_before_the_first_leaf_are_no_times():
    first = screens("steady")[0]
    assert (first.tree_size, first.qps, first.integrate_max_s, first.at_s) == (0, 0, 0, 0.5)
    assert rules(first) == ["offered", "window", "samples"]


def test_terminals_of_other_kinds():
    assert (screens("ascii")[-1].tree_size, screens("ascii")[-1].qps) == (150, 27)
    with pytest.raises(ParseError, match=r"none of the hammer's 9 screens .* use a terminal with 80 columns"):
        screens("narrow")
    # Versions that do not mark their frames: the same screens, at unknown times.
    unmarked = replay(re.sub(rb"\x1b\[\?2026[hl]", b"", recording("steady")))
    marked = [asdict(replace(screen, at_s=None)) for screen in screens("steady")]
    assert [asdict(screen) for screen in unmarked] == marked
    assert unmarked[-1].covered_s is None and "longer-than-the-log" in rules(unmarked[10])


@pytest.mark.long
def test_a_recording_cut_off_anywhere_gives_what_it_had_whole():
    whole, expected = recording("ended"), screens("ended")
    ends = [match.end() for match in re.finditer(rb"\x1b\[\?2026l", whole)]
    last_change = next(end for end in ends if replay_or_none(whole[:end]) == expected)
    for cut in [*range(0, len(whole), 1501), *range(last_change - 40, last_change + 3)]:
        found = replay_or_none(whole[:cut])
        assert found is None or found == expected[: len(found)]
        assert (found == expected) == (cut >= last_change)
    long = recording("steady")
    middle = replay(long[: len(long) // 2])
    assert 10 < len(middle) < len(screens("steady")) and middle == screens("steady")[: len(middle)]
    # Without its beginning: the same figures, at unknown times.
    end = replay(long[len(long) // 2 :])
    assert end == [replace(screen, at_s=None) for screen in screens("steady")[-len(end) :]] and len(end) > 10


def replay_or_none(content: bytes) -> list[HammerScreen] | None:
    try:
        return replay(content)
    except ParseError:
        return None


@pytest.mark.parametrize("noise", [b"\x1b[?1;2m", b"\x1b[5;1;7H", b"\x1b[?6n", b"\x9b\x1b]\xff", b"\x1b[999999999A"])
def test_a_damaged_recording_raises_nothing_else(noise: bytes):
    whole = recording("ended")
    for place in range(0, len(whole), len(whole) // 7):
        replay_or_none(whole[:place] + noise + whole[place:])


def test_a_damaged_recording_is_refused_with_how_far_it_could_be_read():
    frames = recording("ended").split(b"\x1b[?2026l")
    ticks = ["TreeSize" in frame.decode("utf-8", "replace") for frame in frames]
    after = [number for number, tick in enumerate(ticks) if tick][3]  # three ticks are whole
    frames[after] = b"\x1b[?6n" + frames[after]
    with pytest.raises(ParseError, match="the recording of the hammer's screen is damaged after 3 ticks: "):
        replay(b"\x1b[?2026l".join(frames))


def test_the_log_below_the_box_does_not_make_another_screen():
    """The box has seven rows. A screen is one box that differs from the one before it."""
    box = page("posix").replace("\n", "\r\n").encode()
    frames = [b"\x1b[H" + box + b"\x1b[8;1HI1121 %d" % number + b"\x1b[?2026l" for number in range(3)]
    assert replay(b"\x1b[?1049h" + b"".join(frames)) == [replace(parse_box(page("posix")), at_s=0.5)]


def test_a_reason_of_any_length_is_told_in_a_short_message():
    reason = "F1121 16:35:14.850147   28750 hammer.go:121] " + "no " * 2000 + "\n"
    with pytest.raises(ParseError, match="no screen of the hammer; it said: no no no") as caught:
        read_saved(b"\x1b[m\n" + reason.encode() + b"\x1b[?25l")
    assert len(str(caught.value)) < 1100


def test_an_end_before_the_screen_has_its_reason():
    content = (DATA / "hammer-noserver.typescript").read_bytes()
    with pytest.raises(
        ParseError, match=r"no screen of the hammer.*it said: Failed to create LogStateTracker.*refused"
    ):
        replay(content)
    with pytest.raises(ParseError, match="0 B of output have no screen of the hammer; it gives no reason"):
        replay(b"")


def test_saved_files_are_boxes_or_recordings():
    assert read_saved(page("posix").encode()) == [parse_box(page("posix"))]
    assert read_saved(recording("oversupply")) == screens("oversupply")
    assert recognise_box(recording("oversupply").decode()) and recognise_box(recording("ascii").decode())
    with pytest.raises(ParseError):
        read_saved(b"\xff\xfe")


# --- logs -----------------------------------------------------------------------------------------------------


def test_checkpoints_of_a_log():
    steady = log("steady")
    assert (len(steady.checkpoints), steady.checkpoints[-1][1], steady.checkpoints[0][0]) == (34, 16859, 0.0)
    assert (steady.counted, steady.error_count, steady.fatal) == ((), 0, None)


def test_why_hammer_gave_up():
    assert log("badkey").fatal == "failed to create verifier: invalid verifier hash"
    assert log("otherkey").fatal.endswith("note has no verifiable signatures")


def test_errors_and_pushback_are_apart():
    errors = log("errors")
    texts = {text.rpartition(": ")[2]: count for text, count in errors.errors.items()}
    assert texts == {"EOF": 193, "connection refused": 800} and errors.error_count == 993
    assert errors.pushback == 0
    antispam = log("antispam")
    assert (antispam.pushback, antispam.error_count, {line.status for line in antispam.counted}) == (7244, 0, {500})
    # As in aws and gcp. The messages of hammer are from its source, since neither server ran for these recordings.
    counted = "W1121 16:35:14.850147   28750 analysis.go:121] 17 requests received pushback from log\n"
    assert parse_log(counted + counted.replace("14.85", "15.85")).pushback == 34
    assert parse_log(counted + counted).pushback == 17, "a screen shows each warning twice"


def test_logs_cut_off_damaged_and_put_together():
    text = (DATA / "hammer-antispam.stderr").read_text()
    whole = parse_log(text)
    for cut in range(0, len(text), 7):
        part = parse_log(text[:cut])
        assert part.pushback <= whole.pushback and len(part.checkpoints) <= len(whole.checkpoints)
    assert parse_log("no log\n\x00\n") == HammerLog()
    with pytest.raises(ParseError, match="the file may contain two logs"):
        parse_log(text + text)
    # Over midnight.
    late = text.replace("I1121 16:35:12.29", "I1120 23:59:59.29").replace("1121 16:35:", "1121 00:00:")
    ends_s = [parsed.checkpoints[-1][0] for parsed in (parse_log(late), whole)]
    assert ends_s[0] == pytest.approx(ends_s[1] + 13, abs=0.001)


def test_times_of_a_log_count_from_its_first_line_and_lines_of_others_are_left_out():
    lines = [
        "I1121 01:02:03.500000   1 hammer.go:1] Started",
        "a line of another program",
        "I1121 03:04:05.750000   1 hammer.go:110] Updated checkpoint from 0 to 5",
        "F1121 03:04:06.000000   1 hammer.go:9] the first reason",
        "F1121 03:04:07.000000   1 hammer.go:9] what follows from it",
        "I1121 03:04:08.750000   1 hammer.go:110] Updated checkpoint from 7 to 9",  # lines between were lost
        "I1121 03:04:09.750000   1 hammer.go:110] Updated checkpoint from 9 to 1",  # not written to its end
    ]
    log = parse_log("\n".join(lines))
    assert log.checkpoints == ((pytest.approx(2 * 3600 + 2 * 60 + 2.25), 5), (pytest.approx(7325.25), 9))
    assert log.fatal == "the first reason"


@pytest.mark.parametrize(("begin", "end"), [(4, 9), (6, 6), (9, 7)])
def test_a_log_that_shrinks_or_stays_is_refused(begin, end):
    line = "I1121 03:04:0{}.750000   1 hammer.go:110] Updated checkpoint from {} to {}\n"
    with pytest.raises(ParseError, match=f"the tree grew from {begin} to {end} after it had 5"):
        parse_log(line.format(1, 0, 5) + line.format(2, begin, end))
