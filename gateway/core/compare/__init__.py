"""Comparison of the two arms' outputs. Adapters decode; here are numbers, tolerances and what they say."""
