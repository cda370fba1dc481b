"""What every host needs, whatever is measured on it: how a deploy is written, see benchstudy/deploy.py."""

from benchstudy.provisioning.deploy import install

install("Python for the agent, and the tools it describes the hardware with", "python3", "util-linux")
