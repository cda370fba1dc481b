"""Names of the files, folders and processes of a trial, which `run` creates and `parse` reads."""

FACTS = "log.json"  # facts about the load, beside the folders of the trial's commands
LOAD, WATCH = "load", "watch"  # folders of the load, and of logbench beside the hammer
SEARCHED = "load-step-"  # prefix of the folders of a search's windows
RESULT = "result.json"  # the result of logbench in its folder
SAVED_SCREEN = "hammer-screen.txt"  # the only file of an imported trial
SAMPLES = "samples"  # prefix of the folders of the samplers' output
HAMMER = "hammer"  # the mode of a trial whose generator is the hammer
SERVER, DATABASE, GENERATOR = "server", "database", "generator"  # the processes that are sampled
INTERVAL_S = 0.25  # between two samples
