"""Any benchmark program, timed from outside and read by what it prints."""
