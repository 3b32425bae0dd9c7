"""One outside library or system each; adapters do not know one another."""
