"""concertino: an orchestration engine for chat products."""

from ._version import __version__

__all__ = ["__version__"]
