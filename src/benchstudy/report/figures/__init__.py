"""Figures: panels, layers, axes and files."""
