"""Facts about a study as a whole: its results, methods and citation."""
