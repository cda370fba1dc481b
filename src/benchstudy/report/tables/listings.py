"""Text that must keep its columns, such as what a program draws on a terminal: a page shows it as it is."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchstudy.report.tables.tables import slug


@dataclass(frozen=True)
class Listing:
    """`text` verbatim under a title, a note below it. `href` leads to the trials it was made from."""

    title: str
    text: str
    note: str = ""
    href: str | None = None

    def html(self) -> str:
        title, note = html.escape(self.title), html.escape(self.note)
        if self.href is not None:
            title = f'<a href="{html.escape(self.href)}">{title}</a>'
        return (
            f'<figure class="listing"><p class="panel-title">{title}</p><pre tabindex="0" role="group" '
            f'aria-label="{html.escape(self.title)}">{html.escape(self.text)}</pre>'
            f"{f'<figcaption>{note}</figcaption>' if note else ''}</figure>"
        )


def side_by_side(title: str, listings: Sequence[Listing]) -> str:
    """HTML of listings beside one another where there is room."""
    inner = "".join(listing.html() for listing in listings)
    return f'<h3>{html.escape(title)}</h3><div class="listings">{inner}</div>'


def write(name: str, title: str, listings: Sequence[Listing], folder: Path) -> str:
    """All of them as one text file in `folder`; returns its stem."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = slug(f"{name}-{title}")
    parts = [f"{listing.title}\n{listing.text}{listing.note}\n" for listing in listings]
    (folder / f"{stem}.txt").write_text(f"{title}\n\n" + "\n".join(parts), encoding="utf-8")
    return stem
