"""What a page leaves for its study's overview, beside its figures and tables."""

# Notes by kind and name; the figure to show; the short answer.
NOTES, HEADLINE, ANSWER = "overview.json", "headline.html", "answer.json"
