"""Packs a study into one file that others can check and reproduce: a Workflow Run RO-Crate.

`crate.py` packs, `graph.py` describes, `checks.py` compares every file with its SHA-256, `reproduce.py` makes the
reports again. See docs/provenance.md.
"""
