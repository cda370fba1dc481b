"""Preformatted text, such as the output of a program on a terminal, which a page shows verbatim."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchstudy.report.tables.tables import slug


@dataclass(frozen=True)
class Listing:
    """A verbatim `text` with a title above and a note below it. `href` leads to the trials that it was made from."""

    title: str
    text: str
    note: str = ""
    href: str | None = None

    def html(self) -> str:
        """The listing as a `<figure>`."""
        title, note = html.escape(self.title), html.escape(self.note)
        if self.href is not None:
            title = f'<a href="{html.escape(self.href)}">{title}</a>'
        return (
            f'<figure class="listing"><p class="panel-title">{title}</p><pre tabindex="0" role="group" '
            f'aria-label="{html.escape(self.title)}">{html.escape(self.text)}</pre>'
            f"{f'<figcaption>{note}</figcaption>' if note else ''}</figure>"
        )


def side_by_side(title: str, listings: Sequence[Listing]) -> str:
    """HTML of listings, side by side if there is room."""
    inner = "".join(listing.html() for listing in listings)
    return f'<h3>{html.escape(title)}</h3><div class="listings">{inner}</div>'


def write(name: str, title: str, listings: Sequence[Listing], folder: Path) -> str:
    """Write all listings as one text file in `folder`. Returns its stem."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = slug(f"{name}-{title}")
    parts = [f"{listing.title}\n{listing.text}{listing.note}\n" for listing in listings]
    (folder / f"{stem}.txt").write_text(f"{title}\n\n" + "\n".join(parts), encoding="utf-8")
    return stem
