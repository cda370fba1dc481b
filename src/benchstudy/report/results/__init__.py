"""A family's tables and its sessions' records, read for a report."""
