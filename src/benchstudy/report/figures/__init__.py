"""Figures: panels, layers, axes, and the files that they become."""
