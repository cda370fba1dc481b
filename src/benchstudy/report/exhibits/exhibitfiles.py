"""The files that a page writes for its study's overview, beside its figures and tables."""

# Notes by kind and name; the figure to show; the short answers.
NOTES, HEADLINE, ANSWER = "overview.json", "headline.html", "answer.json"
