"""The Mattermost storage page's figures (data/published/mattermost-storage.csv) beside what was measured here."""

from benchstudy.model.units import Size
from benchstudy.report.exhibits import cells
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import Cell

FILE = "mattermost-storage.csv"


def show(page: PublishedPage, results: Results | None) -> None:
    """Time of one file, mean (± deviation, p50), by size: the page's backends, then ours."""
    for op in ("write", "read"):
        table = published.table(
            page.folder / FILE,
            f"storage-{op}",
            rows="size",
            columns="backend",
            where={"op": op},
            caption=f"Time of one file, {op}: published (other hardware, no number of repetitions), measured here",
        )
        page.show_table(
            published.beside(table, *_by_size(results, op, page.published_form), lambda size: Size(size).bytes)
        )


def _by_size(results: Results | None, op: str, form: str) -> tuple[list[str], dict[str, list[Cell]]]:
    """(headings, cells by size) of the file sizes that were measured: a column a backend and state of cache or sync."""
    if results is None:
        return [], {}
    state = "sync" if op == "write" else "cache"
    estimates = results.estimates("duration", {"op": op})
    columns = list(dict.fromkeys((e.target, e.levels["backend"], e.levels[state]) for e in estimates))
    found = {(e.levels["size"], e.target, e.levels["backend"], e.levels[state]): e for e in estimates}
    several = len(results.targets) > 1
    heads = [", ".join([*([target] if several else []), backend, how]) for target, backend, how in columns]
    sizes = dict.fromkeys(str(e.levels["size"]) for e in estimates)
    return heads, {
        size: [cells.estimate_cell(results, found.get((size, *column)), form) for column in columns] for size in sizes
    }


SECTION = Section(
    title="Backing storage",
    introduction=(
        "Time of one file, mean (± standard deviation, p50: median), on the page over an unknown number of "
        "repetitions, here over trials. The page does not say whether writes were synced nor whether reads were cold; "
        "ours say both."
    ),
    files={FILE: "Mattermost: backing storage"},
    show=show,
    order=10,
)
