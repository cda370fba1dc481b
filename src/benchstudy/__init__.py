"""benchstudy: reproducible benchmark studies, from hosts over SSH to reports a reviewer can check."""

__version__ = "0.1.0"
