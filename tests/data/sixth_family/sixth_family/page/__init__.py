"""Tables and figures of the family's page."""
