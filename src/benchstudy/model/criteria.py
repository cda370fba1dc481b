"""From where on a figure is held against a load, for every parser, lint and page that says so."""

ACHIEVED = 0.99  # of what was offered: a load that gets less did not get what it asked for
BUSY_WRITERS = 0.9  # of a closed loop's writers waiting at once: their number decides the rate
BUSY_GENERATOR = 0.8  # of its processors: the generator may decide the figure
