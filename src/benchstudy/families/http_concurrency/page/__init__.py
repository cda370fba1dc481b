"""Tables and figures of the family http_concurrency."""
