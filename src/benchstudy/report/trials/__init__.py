"""Lists of trials with their files, on a family's page or on separate pages."""
