"""HTTP servers under limits, asked by more and more clients at once."""
