"""Transparency logs: leaves a second that a log takes."""
