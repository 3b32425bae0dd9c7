"""Decisions of the server. Time and identity come in as arguments; nothing here waits, reads or writes."""
