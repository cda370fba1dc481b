"""What a page finds out about its own credibility."""
