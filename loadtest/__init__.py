"""Open-loop load for an embeddings endpoint: seeded texts, checked answers, latencies from the planned start."""
