"""Thresholds of the method, each of them here alone: for every parser, statistic, lint and page that says so."""

LEVEL = 0.95  # of every interval
MARGIN = 0.05  # the smallest difference that matters, where a study declares none
ACHIEVED = 0.99  # of what was offered: a load that gets less did not get what it asked for
BUSY_WRITERS = 0.9  # of a closed loop's writers waiting at once: their number decides the rate
BUSY_GENERATOR = 0.8  # of its processors: the generator may decide the figure, which is client-limited
DISTURBED = 0.05  # of a host's processors, or of its disks' time: what others may take beside a trial
LITTLE = 0.05  # of the requests that were to be under way: more or fewer of them contradict Little's law
