"""Tables and figures of its page."""
