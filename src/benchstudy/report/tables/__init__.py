"""Tables for readers, and preformatted texts."""
