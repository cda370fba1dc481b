"""Times of writing and reading files of different sizes, on file systems and object stores."""
