"""Bells: the port, and its implementations within a process, over PostgreSQL and over NATS."""
