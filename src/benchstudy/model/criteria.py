"""Thresholds of the method, each of them here alone: for every parser, statistic, lint and page that says so."""

LEVEL = 0.95  # of every interval
MARGIN = 0.05  # the smallest difference that matters, where a study declares none
ACHIEVED = 0.99  # of what was offered: a load that gets less did not get what it asked for
BUSY_WRITERS = 0.9  # of a closed loop's writers waiting at once: their number decides the rate
BUSY_GENERATOR = 0.8  # of its processors: the generator may decide the figure, which is client-limited
CACHED = 0.99  # of a file in the page cache, at least: a warm read
NOT_CACHED = 0.01  # of it, at most: a cold one
LITTLE = 0.05  # of the requests that were to be under way: more or fewer of them contradict Little's law
