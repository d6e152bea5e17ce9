"""A small product catalogue: an HTTP API over SQLite, to experiment on."""
