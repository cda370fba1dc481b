"""Thresholds of the method, each of them here alone: for every parser, statistic, lint and page that says so."""

LEVEL = 0.95  # of every interval
MARGIN = 0.05  # the smallest difference that matters, where a study declares none
ACHIEVED = 0.99  # of what was offered: a load that gets less did not get what it asked for
BUSY_WRITERS = 0.9  # of a closed loop's writers waiting at once: their number decides the rate
BUSY_GENERATOR = 0.8  # of its processors: the generator may decide the figure, which is client-limited
PAGE_OF_MEMORY = 4096  # bytes: a read that fetched less than one page from storage fetched nothing
SAME_PROOF = 0.5  # of the bytes that storage gave to one case: another that got less was verified to be something else
EPISODE_S = 600.0  # blocks that all begin within so long saw one episode of their host, and no other
LITTLE = 0.05  # of the requests that were to be under way: more or fewer of them contradict Little's law
