"""What is measured, when, and how it is kept: sessions, trials, the raw store, looks, instruments."""
