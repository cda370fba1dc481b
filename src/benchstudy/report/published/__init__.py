"""Figures that others published, beside measured ones."""
