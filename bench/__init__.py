"""Measurements of the product that need no device and no network: how its decision rule does on simulated traffic."""
