"""Any benchmark program, timed from outside, with metrics from its output."""
