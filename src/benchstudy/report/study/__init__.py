"""What is known of a study as a whole, and its pages."""
