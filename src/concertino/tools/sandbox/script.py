"""Runs scripts in a subprocess with limits and, where the kernel allows it, without a network."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import ConfigurationError, ToolError
from ...records import record

_LAUNCHER = Path(__file__).with_name("launcher.py")
_INTERPRETERS: dict[str, tuple[str, ...]] = {
    ".py": (sys.executable, "-E", "-s", "-B"),
    ".sh": ("/bin/sh",),
    ".js": ("node",),
    ".mjs": ("node",),
}
_MOST_BYTES = 200_000
"""The size of an output from which its middle is left out."""
NO_NETWORK_NAMESPACE = 125
"""The launcher's exit code if it cannot take the network away."""


@record(kw_only=True)
class ScriptLimits:
    """The limits of a script. Raises `ConfigurationError` if one is invalid."""

    seconds: float = 60.0
    """Seconds after which it is killed with the processes that it has started. With `network`, a process that leaves
    its process group can outlive it."""
    cpu_seconds: int = 30
    """CPU time of each process. The number of processes is not limited."""
    megabytes: int = 2_000
    """Address space of each process."""
    file_megabytes: int = 100
    """Size of each file that it writes, its output included."""
    network: bool = False
    """Whether it may use the network. If not, it runs in its own network namespace; on a machine whose kernel allows
    none, scripts are refused. Unix sockets in the file system are not part of it: their permissions decide."""

    def __post_init__(self) -> None:
        for name in ("seconds", "cpu_seconds", "megabytes", "file_megabytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigurationError(f"ScriptLimits({name}={value!r:.80}): use a number above 0")


async def run_script(script: Path, arguments: Sequence[str], folder: Path, limits: ScriptLimits) -> str:
    """Run *script*, an absolute path, in *folder* and return its output, without the middle if it is long.

    Raises `ToolError` if it cannot be started or exceeds its time, and with its output if it fails.
    """
    program = [*_INTERPRETERS.get(script.suffix, ()), str(script), *arguments]
    figures = (limits.cpu_seconds, limits.megabytes * 1_000_000, limits.file_megabytes * 1_000_000)
    command = [sys.executable, "-I", str(_LAUNCHER), *[str(int(each)) for each in (limits.network, *figures)], *program]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8"}
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limits.seconds):
                code = await process.wait()
        except TimeoutError:
            raise ToolError(f"the script did not end within {limits.seconds:g} s and was killed") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
        text = _output(output.fileno())
    if code == NO_NETWORK_NAMESPACE:
        raise ToolError(
            "scripts are refused: this machine's kernel allows no network namespace, and they may not use the network"
        )
    if code != 0:
        raise ToolError(f"exit code {code}\n{text}".strip())
    return text or "(no output)"


def _output(file: int) -> str:
    size = os.fstat(file).st_size
    if size <= _MOST_BYTES:
        return os.pread(file, size, 0).decode(errors="replace")
    half = _MOST_BYTES // 2
    start, end = os.pread(file, half, 0), os.pread(file, half, size - half)
    left_out = f"\n[... {size - 2 * half:,} bytes are left out ...]\n"
    return start.decode(errors="replace") + left_out + end.decode(errors="replace")
