"""The colours and shapes of series in figures, and the few other colours of figures."""

from dataclasses import dataclass

import altair as alt

# Blue, orange, green, plum, pink, brown. They differ in grey, too: their lightness (L*) is 35, 61, 47, 22, 51 and 28.
# Each has a contrast of 3:1 with white, and no two are closer than 10 (CIELAB) under any common colour blindness.
# The same holds for the colours of dark mode in page.css. Shapes and dashes distinguish series, too.
_COLOURS = ("#00529B", "#E0761A", "#008066", "#5A1850", "#C2528B", "#6E2A12")
# For series with an order, such as concurrencies: teal to a dark red; neighbours differ in their dashes, too.
_ORDERED = (
    *("#3aa3a0", "#2f8fb5", "#2f7cc0", "#3a66b8", "#4a4fa6"),
    *("#5a3793", "#68217a", "#6a145c", "#5c0f3f", "#420c26"),
)
DASHES = ((1, 0), (6, 3), (2, 2), (10, 3, 2, 3), (4, 2), (10, 2))
# Each fits in a square of 14 units.
SYMBOLS = {
    "circle": '<circle cx="7" cy="7" r="5"/>',
    "square": '<rect x="2" y="2" width="10" height="10"/>',
    "triangle-up": '<path d="M7 1.5 13 12.5H1z"/>',
    "diamond": '<path d="M7 .5 13 7 7 13.5 1 7z"/>',
    "cross": '<path d="M5 1h4v4h4v4H9v4H5V9H1V5h4z"/>',
    "triangle-down": '<path d="M7 12.5 1 1.5h12z"/>',
}
_SHAPES = tuple(SYMBOLS)
# The page's style sheet recognises exactly these values, and replaces them in dark mode.
INK, MUTED, GRID, REFERENCE = "#2b3038", "#5b6470", "#e1e5ea", "#8a4b00"


@dataclass(frozen=True)
class Style:
    """Colour and shape of each series, the same in every figure of a page. `ordered`: series are levels of a number.

    The encodings have no legend, because figures draw their own.
    """

    names: tuple[str, ...]
    ordered: bool = False

    @property
    def colours(self) -> list[str]:
        """The colour of each series, in the order of `names`."""
        if self.ordered:
            step = (len(_ORDERED) - 1) / max(len(self.names) - 1, 1)
            return [_ORDERED[round(i * step)] for i in range(len(self.names))]
        return [_COLOURS[i % len(_COLOURS)] for i in range(len(self.names))]

    @property
    def shapes(self) -> list[str]:
        """The shape of each series, in the order of `names`."""
        return [_SHAPES[(i + i // len(_COLOURS)) % len(_SHAPES)] for i in range(len(self.names))]

    @property
    def dashes(self) -> list[list[int]]:
        """The dashes of lines. Levels of a number differ in colour, and neighbours also in their dash."""
        several = 2 if self.ordered else len(DASHES)
        return [list(DASHES[i % several]) for i in range(len(self.names))]

    def colour(self) -> alt.Color:
        """Vega-Lite's encoding of series by colour."""
        return alt.Color("series:N", scale=alt.Scale(domain=list(self.names), range=self.colours), legend=None)

    def dash(self) -> alt.StrokeDash:
        """Vega-Lite's encoding of series by dash."""
        return alt.StrokeDash("series:N", scale=alt.Scale(domain=list(self.names), range=self.dashes), legend=None)

    def shape(self) -> alt.Shape:
        """Vega-Lite's encoding of series by shape."""
        return alt.Shape("series:N", scale=alt.Scale(domain=list(self.names), range=self.shapes), legend=None)
