"""benchstudy: reproducible benchmark studies, from hosts over SSH to reports a reviewer can check."""

import sys

__version__ = "0.1.0"

# Importing it takes a second in every process that reads a notebook or draws a figure: it builds a grammar with which
# jsonschema, where it finds it, checks internationalised addresses. No schema that we use has any.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
