"""What a study is, and the terms that all other layers use. Imports nothing of the package but itself."""
