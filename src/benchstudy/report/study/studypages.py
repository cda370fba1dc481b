"""Pages of a study as a whole."""

# Notebooks that read the tables of every family, and the titles of their pages. All others are a family's, named so.
STUDY_PAGES = {"published": "Published figures"}
