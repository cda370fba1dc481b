"""The colours and shapes of a figure's series, and the few colours of everything else in it."""

from dataclasses import dataclass

import altair as alt

# Okabe and Ito's palette in the order that stays apart under every common colour blindness; the shapes say it again.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# For series that have an order, such as concurrencies: teal to a dark red; neighbours differ in their dashes, too.
_ORDERED = (
    *("#3aa3a0", "#2f8fb5", "#2f7cc0", "#3a66b8", "#4a4fa6"),
    *("#5a3793", "#68217a", "#6a145c", "#5c0f3f", "#420c26"),
)
DASHES = ((1, 0), (6, 3))
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# The page's style sheet recognises exactly these and replaces them in the dark.
INK, MUTED, GRID, REFERENCE = "#2b3038", "#5b6470", "#e1e5ea", "#8a4b00"


@dataclass(frozen=True)
class Style:
    """Colour and shape of each series, the same in every figure of a page. `ordered`: they are levels of a number."""

    names: tuple[str, ...]
    ordered: bool = False

    @property
    def colours(self) -> list[str]:
        if self.ordered:
            step = (len(_ORDERED) - 1) / max(len(self.names) - 1, 1)
            return [_ORDERED[round(i * step)] for i in range(len(self.names))]
        return [_COLOURS[i % len(_COLOURS)] for i in range(len(self.names))]

    @property
    def shapes(self) -> list[str]:
        return [_SHAPES[(i + i // len(_COLOURS)) % len(_SHAPES)] for i in range(len(self.names))]

    def colour(self) -> alt.Color:
        legend = alt.Legend(title=None, orient="bottom", columns=3, symbolOpacity=1)
        return alt.Color("series:N", scale=alt.Scale(domain=list(self.names), range=self.colours), legend=legend)

    def dash(self) -> alt.StrokeDash:
        dashes = [list(DASHES[i % 2 if self.ordered else 0]) for i in range(len(self.names))]
        return alt.StrokeDash("series:N", scale=alt.Scale(domain=list(self.names), range=dashes), legend=None)

    def shape(self) -> alt.Shape:
        legend = alt.Legend(title=None, orient="bottom", columns=3)
        return alt.Shape("series:N", scale=alt.Scale(domain=list(self.names), range=self.shapes), legend=legend)
