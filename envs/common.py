"""What every host needs, whatever is measured on it. See benchstudy/deploy.py for how to write a deploy."""

from benchstudy.provisioning.deploy import install

install("Python for the agent, and the tools it describes the hardware with", "python3", "util-linux")
