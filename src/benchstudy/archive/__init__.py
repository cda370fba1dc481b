"""An append-only archive of raw files in object storage: see docs/archive.md.

`bucket.py` speaks S3, `packs.py` turns a sealed folder into one object, `manifests.py` lists the objects of a session.
`push.py`, `pull.py` and `check.py` are the commands.
"""
