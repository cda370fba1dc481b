class Refused(Exception):
    """Why the request cannot be carried out as asked, for a person to read."""
