"""What a study is, and the words everything else is said in. Imports nothing of the package but itself."""
