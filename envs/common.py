"""What every host needs for any family. See benchstudy/provisioning/deploy.py for how to write a deploy."""

from benchstudy.provisioning.deploy import install

install("Python for the agent, and the tools it describes the hardware with", "python3", "util-linux")
