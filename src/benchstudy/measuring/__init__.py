"""Measures and keeps results: sessions, trials, the raw store, looks, instruments."""
