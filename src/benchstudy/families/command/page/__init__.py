"""The family's own tables and figures."""
