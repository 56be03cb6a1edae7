"""The protocols of front ends. Each module maps the log of events to one protocol, and has its routes."""

from ...extras import extra

with extra("server", "a protocol's routes"):
    import starlette as starlette
