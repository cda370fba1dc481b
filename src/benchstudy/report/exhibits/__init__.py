"""Turns results into what a page shows and into the files beside it."""
