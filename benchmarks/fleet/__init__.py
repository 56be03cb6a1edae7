"""The measurements of a fleet: PostgreSQL and NATS, started from Python packages."""
