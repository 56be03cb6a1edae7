"""The protocols of front ends. Each module maps the log of events to one protocol, and has its routes."""
