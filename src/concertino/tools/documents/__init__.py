"""Local documents as a `Library`: folders of files, or the docstrings of Python's standard library."""

from .html import read_html
from .library import DocumentLibrary, open_documents

__all__ = ["DocumentLibrary", "open_documents", "read_html"]
