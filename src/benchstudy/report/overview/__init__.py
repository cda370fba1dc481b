"""The first page of a study, and all of its reports in one file."""
