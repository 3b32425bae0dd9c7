"""HTTP: the data port, the admin port, and how they listen."""
