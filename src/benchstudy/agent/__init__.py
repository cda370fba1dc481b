"""What runs on a measured host: Python >= 3.9 and its standard library only.

The folder is copied to the host and run as `python3 -I <folder> COMMAND …`, so its modules import each other by their
bare names.
"""
