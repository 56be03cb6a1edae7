"""The page: a chat in the browser on the API of the same application, rendered by the server."""

from ...extras import extra

with extra("server", "the page"):
    from .markup import markdown_html
    from .page_routes import page_routes
    from .site import PageAgent

__all__ = ["PageAgent", "markdown_html", "page_routes"]
