"""Comparisons of cases and of studies: what is compared with what, and which conclusions are valid."""
