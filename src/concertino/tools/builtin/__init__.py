"""The ready tools, each over a port of its own."""
