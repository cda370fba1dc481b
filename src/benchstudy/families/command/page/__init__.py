"""Tables and figures of the family command."""
