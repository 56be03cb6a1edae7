"""Local documents as a `Library`: folders of files, or any other `Collection`."""

from ...extras import extra

with extra("documents", "reading documents"):
    from .index import Collection, DocumentLibrary, open_documents

__all__ = ["Collection", "DocumentLibrary", "open_documents"]
