"""Queues, tasks and cancellation around the core's decisions."""
