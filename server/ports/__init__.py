"""What the runtime needs from outside, as small Protocols."""
