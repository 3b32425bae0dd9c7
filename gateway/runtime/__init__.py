"""Tasks, queues, deadlines and cancellation; no frameworks, HTTP or SQL."""
