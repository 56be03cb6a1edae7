"""Local documents as a `Library`: folders of files, or the docstrings of Python's standard library."""

from ...extras import extra

with extra("documents", "reading documents"):
    from .library import DocumentLibrary, open_documents

__all__ = ["DocumentLibrary", "open_documents"]
