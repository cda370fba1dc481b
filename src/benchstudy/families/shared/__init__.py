"""What several families have in common."""
