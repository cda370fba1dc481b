"""What a trial of the family load_test does: run the load or take a window of one, and keep what Prometheus saw."""
