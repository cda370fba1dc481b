"""The families that ship, each a folder that is found by itself. Nothing has to be registered."""
