"""Local documents as a `Library`: folders of files, or the docstrings of Python's standard library."""

from ...errors import MissingExtraError

try:
    from .library import DocumentLibrary, open_documents
except ModuleNotFoundError as error:
    if error.name not in ("docutils", "markdown_it"):
        raise
    raise MissingExtraError(
        f"cannot read documents ({error}); install the readers: pip install 'concertino[documents]'"
    ) from error

__all__ = ["DocumentLibrary", "open_documents"]
