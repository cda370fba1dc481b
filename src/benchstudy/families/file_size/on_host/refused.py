class Refused(Exception):
    """The request cannot be carried out. The message says why."""
