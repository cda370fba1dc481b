"""From tidy tables to tables, figures and pages. Nothing in here measures, and nothing that measures needs it."""
