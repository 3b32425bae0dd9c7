"""The canary gateway: splits live traffic between baseline and candidate, compares, and decides."""
