"""Files of rising size, written and read back, on file systems and object stores."""
