"""Thresholds of the method, each of them here alone: for every parser, statistic, lint and page that says so."""

LEVEL = 0.95  # of every interval
MARGIN = 0.05  # the smallest difference that matters, where a study declares none
ACHIEVED = 0.99  # of what was offered: a load that gets less did not get what it asked for
BUSY_WRITERS = 0.9  # of a closed loop's writers waiting at once: their number decides the rate
BUSY_GENERATOR = 0.8  # of its processors: the generator may decide the figure, which is client-limited
CACHED = 0.99  # of a file in the page cache, at least: a warm read
NOT_CACHED = 0.01  # of it, at most: a cold one
PAGE_OF_MEMORY = 4096  # bytes: a read that fetched less than one page from storage fetched nothing
SAME_PROOF = 0.5  # of the bytes that storage gave to one case: another that got less was verified to be something else
EPISODE_S = 600.0  # blocks that all begin within so long saw one episode of their host, and no other
DISTURBED = 0.05  # of a host's processors, or of its disks' time: what others may take beside a trial
LITTLE = 0.05  # of the requests that were to be under way: more or fewer of them contradict Little's law
LEAST_CEILING_S = 1.0  # of a null server's run: what a generator does in milliseconds it mostly does to begin
USERS_SWING = 0.5  # of their mean: users that swing wider between the fewest and the most have no number
# Two modes behind one median. Simulated (docs/statistics.md): of samples with one mode at most 3 in 100 get two.
MODES_FEWEST = 6  # trials; of five with one mode, 4 in 100 have such a gap
MODES_GAP = 3.0  # times as wide as either group is the gap between the two
MODES_APART = 1.25  # as a ratio; two groups that are nearer to each other mislead nobody
DIP_FEWEST = 10  # trials from which Hartigan's dip test is asked, too: of six it finds hardly any two modes
DIP_LEVEL = 0.01  # of the dip test; a page asks it a hundred times
