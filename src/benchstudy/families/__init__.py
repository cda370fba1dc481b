"""The built-in families. Each is a folder, which is discovered automatically and needs no registration."""
