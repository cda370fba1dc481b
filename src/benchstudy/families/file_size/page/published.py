"""The figures of Mattermost's storage page (data/published/mattermost-storage.csv) beside our measurements."""

from benchstudy.model.units import Size
from benchstudy.report.comparisons.comparison import twins
from benchstudy.report.exhibits import cells
from benchstudy.report.published import published
from benchstudy.report.published.published_page import PublishedPage, Section
from benchstudy.report.results import sessions
from benchstudy.report.results.results import Results
from benchstudy.report.tables.tables import Cell

FILE = "mattermost-storage.csv"


def show(page: PublishedPage, results: Results | None) -> None:
    """Show the time of one file by size: the backends of the page, as mean (± deviation, p50), then our medians."""
    form = "mean" if page.published_form == "mean" else "median"  # the family's page has both
    for op in ("write", "read"):
        table = published.table(
            page.folder / FILE,
            f"storage-{op}",
            rows="size",
            columns="backend",
            where={"op": op},
            caption=f"Time of one file, {op}: published (other hardware, unknown repetitions) and measured here",
        )
        page.show_table(published.beside(table, *_by_size(page, results, op, form), lambda size: Size(size).bytes))


def _by_size(
    page: PublishedPage, results: Results | None, op: str, form: str
) -> tuple[list[str], dict[str, list[Cell]]]:
    """Return (headings, cells by file size), with one column per backend and state of cache or sync.

    Backends that repeat another one under a second name (A/A) are left out.
    """
    if results is None:
        return [], {}
    state = "sync" if op == "write" else "cache"
    again = {second for _, second in twins(sessions.declared(page.indexes(results), results.family))}
    estimates = [e for e in results.estimates("duration", {"op": op}) if e.levels["backend"] not in again]
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
        "Time of one file. The published figures are a mean (± standard deviation, p50: median) over an unknown number "
        "of repetitions. Ours are medians over trials with their interval; the family's page has means and deviations, "
        "too. The page does not say whether writes were synced or reads were cold; our columns say both."
    ),
    files={FILE: "Mattermost: backing storage"},
    show=show,
    order=10,
)
