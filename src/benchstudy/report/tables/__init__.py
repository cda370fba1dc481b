"""Tables that people read, and text that keeps its columns."""
