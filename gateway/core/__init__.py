"""Pure decisions and state. No clock, chance, IO, logging, threads or framework: they come in as arguments."""
