"""One process of the benchmark: `python -m benchmarks.one systems.floor '[["steps", {"steps": 10, ...}], ...]'`.

Prints one line of JSON for each workload: its figures, or `{"error": ...}`.
"""

import time

_BEGUN = time.process_time()  # first: the import time of the system starts here

import asyncio  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from importlib import import_module  # noqa: E402
from types import ModuleType  # noqa: E402
from typing import Any  # noqa: E402

from benchmarks.common import TOOLS  # noqa: E402

_Figures = dict[str, Any]
_SDKS = ("openai", "anthropic", "google.genai")


def _load(adapter: str) -> tuple[ModuleType, _Figures]:
    """Import a system's adapter and build one agent. Return the adapter and the costs of both."""
    module = import_module(f"benchmarks.{adapter}")
    imported = time.process_time() - _BEGUN
    sdks = [name for name in _SDKS if name in sys.modules]
    module.build(TOOLS["ping"])
    ready = time.process_time() - _BEGUN
    modules = len(sys.modules)
    return module, {
        "import_ms": imported * 1e3,
        "ms": ready * 1e3,
        "modules": modules,
        "mib": _resident_mib(),
        "sdks": sdks,
        "floor_us": asyncio.run(_floor_us()),
    }


async def _floor_us() -> float:
    """Return the CPU of a step of the bare loop, here and now: absolute goals are scaled by it."""
    from benchmarks import workloads
    from benchmarks.systems import floor

    found = await workloads.steps(floor.build, steps=100, at_most=200, seconds=0.1)
    us: float = found["us"]
    return us


def _resident_mib() -> float:
    """Return the resident memory, or its peak on a system without `/proc`."""
    import resource
    from pathlib import Path

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return pages * resource.getpagesize() / 2**20


def _versions(module: ModuleType) -> _Figures:
    from importlib.metadata import version

    return {"versions": {name: version(name) for name in module.DISTRIBUTIONS}}


def _figures(module: ModuleType, loaded: _Figures, workload: str, parameters: dict[str, Any]) -> _Figures:
    if workload == "load":
        return loaded
    if workload == "versions":
        return _versions(module)
    from benchmarks import durable, growth, http, product, trim, workloads

    known: dict[str, Any] = {}
    for area in (workloads, growth, product, durable, http, trim):
        known.update(area.WORKLOADS)
    if workload not in known:
        from benchmarks.fleet import steps  # needs psycopg, which not every environment has

        known.update(steps.WORKLOADS)
    found: _Figures = asyncio.run(known[workload](module.build, **parameters))
    return found


def main() -> None:
    """Run the workloads of the command line."""
    module, loaded = _load(sys.argv[1])
    for workload, parameters in json.loads(sys.argv[2]):
        try:
            figures = _figures(module, loaded, workload, parameters)
        except Exception as problem:  # noqa: BLE001  # the driver reports it, and the next workload runs
            figures = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
