"""Transparency logs: leaves per second that a log integrates."""
