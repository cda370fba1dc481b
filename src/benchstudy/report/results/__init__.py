"""Reads a family's tables and the records of its sessions for a report."""
