"""Installs copyparty from the Python package index, with the library for its thumbnails."""

from pathlib import Path

from benchstudy.provisioning.deploy import python_tool

python_tool("the file server copyparty", "copyparty", Path(__file__).parent / "requirements.txt")
