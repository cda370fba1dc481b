"""The commands that people call: one module per command."""
