"""Worker processes: the one part of the package that executes work on untrusted data.

Parsers of documents and checks of schemas may take hours or all memory on input that was made for it. A worker has
limits of CPU time and memory, and is killed when its caller stops waiting.
"""

from .worker_pool import in_worker, run_in_worker

__all__ = ["in_worker", "run_in_worker"]
