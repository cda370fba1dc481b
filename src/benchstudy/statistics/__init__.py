"""Estimates, comparisons and shifts: numbers in, numbers out."""
