"""From results to what a page shows and writes beside itself."""
