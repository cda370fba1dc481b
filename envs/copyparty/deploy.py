"""copyparty comes from the Python package index, with what makes its thumbnails."""

from pathlib import Path

from benchstudy.provisioning.deploy import python_tool

python_tool("the file server copyparty", "copyparty", Path(__file__).parent / "requirements.txt")
