"""Parts of the family log_write: what is run, how a trial goes, what it says."""
