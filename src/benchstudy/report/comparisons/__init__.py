"""Which cases, or studies, stand against each other, and what may be said of it."""
