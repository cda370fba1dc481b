"""A study as one file that others can check and make the same tables from: a Workflow Run RO-Crate.

`crate.py` packs, `graph.py` describes, `checks.py` compares every file with its SHA-256, `reproduce.py` makes the
reports again. See docs/provenance.md.
"""
