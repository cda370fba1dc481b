"""What the files, folders and processes of a trial are called: `run` leaves them, `parse` finds them."""

FACTS = "log.json"  # what was found around the load, beside the folders of the trial's commands
LOAD, WATCH = "load", "watch"  # folders: of the load, and of logbench beside the hammer
SEARCHED = "load-step-"  # the folders of a search's windows begin so
RESULT = "result.json"  # what logbench leaves in its folder
SAVED_SCREEN = "hammer-screen.txt"  # of an imported trial, which has nothing else
SAMPLES = "samples"  # folders of the samplers' output begin so
HAMMER = "hammer"  # the mode of a trial whose generator is the hammer
SERVER, DATABASE, GENERATOR = "server", "database", "generator"  # the processes that are sampled
INTERVAL_S = 0.25  # between two samples
