"""What hosts need for naps."""

from benchstudy.provisioning.deploy import install

install("Python, which takes the naps", "python3", roles=["sut"], programs=["python3"])
