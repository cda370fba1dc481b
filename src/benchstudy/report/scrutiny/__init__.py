"""Checks of a page's own credibility."""
