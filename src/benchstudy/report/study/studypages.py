"""Pages of a study as a whole."""

# Notebooks that read the tables of all families, with the titles of their pages. Any other notebook is named after the
# family that it shows.
STUDY_PAGES = {"published": "Published figures"}
