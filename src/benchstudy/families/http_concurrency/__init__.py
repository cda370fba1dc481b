"""HTTP servers under limits and rising concurrency."""
