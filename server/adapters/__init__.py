"""One outside library each."""
