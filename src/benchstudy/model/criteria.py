"""Thresholds of the method, each defined only here, for every parser, statistic, lint and page that uses it."""

LEVEL = 0.95  # confidence level of every interval
MARGIN = 0.05  # the smallest difference that matters, if a study declares none
ACHIEVED = 0.99  # of the offered rate: below this, a load did not achieve it
BUSY_WRITERS = 0.9  # of a closed loop's writers waiting at once: at or above this, their number decides the rate
BUSY_GENERATOR = 0.8  # of its CPUs: at or above this, the figure is client-limited
CACHED = 0.99  # of a file in the page cache: a warm read has at least this
NOT_CACHED = 0.01  # a cold read has at most this
SKEW = 0.01  # of the measured time, a fifth of MARGIN: clients further apart than this did not load together
OVERLAP = 0.9  # of the time in which a client moved data: below this, a sum is of fewer clients than its case says
RESOLVED = 0.05  # of a percentile from merged histograms: the widest bin from which it may be read
PAGE_OF_MEMORY = 4096  # bytes: a read that fetched less than one page from storage fetched nothing
SAME_PROOF = 0.5  # of the bytes that storage delivered to one case: a case that got less was verified in another state
EPISODE_S = 600.0  # blocks that all begin within this time saw a single episode of their host
DISTURBED = 0.05  # of a host's CPUs, or of its disks' time: what others may use during a trial
LITTLE = 0.05  # of the requests that should be in flight: a larger deviation contradicts Little's law
LEAST_CEILING_S = 1.0  # of a null server's run: a generator spends shorter runs mostly on starting up
START_UP = 0.1  # of a program's duration: if starting one takes more, its figure is near the limit of what can be timed
USERS_SWING = 0.5  # of their mean: if the number of users varies more, there is no single number
# Two modes behind one median. Simulated (docs/statistics.md): at most 3 in 100 samples with one mode are given two.
MODES_FEWEST = 6  # trials; among samples of five with one mode, 4 in 100 have such a gap
MODES_GAP = 3.0  # the gap is this many times as wide as either group
MODES_APART = 1.25  # as a ratio; two groups closer together mislead nobody
DENSITY_FEWEST = 20  # trials of a series from which the outline of their density says more than the points
DIP_FEWEST = 10  # trials from which Hartigan's dip test is also used: with six it rarely finds two modes
DIP_LEVEL = 0.01  # significance level of the dip test, which a page uses a hundred times
MANY_TARGETS = 24  # a page of more is over its targets, each of which has a page of its own
FAR = 3.5  # robust standard deviations of logarithms (Iglewicz and Hoaglin): a value farther off is an outlier
LEAST_SPREAD = 0.01  # the least deviation that is used: values that agree within a hundredth have no outlier
