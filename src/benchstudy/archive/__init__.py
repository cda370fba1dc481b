"""Raw files in object storage, to which things are only ever added: see docs/archive.md.

`bucket.py` speaks S3, `packs.py` makes one object of a sealed folder, `manifests.py` says which belong to a session;
`push.py`, `pull.py` and `check.py` are the commands.
"""
