"""Packages of the npm registry, for tests with the marker `node` or `browser`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def require(*programs: str) -> None:
    """Skip the test if one of *programs* is not installed, but fail in `.ci/run`."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        if "CI" in os.environ or "REQUIRE_DATA" in os.environ:
            pytest.fail(f"{' and '.join(missing)} must be installed in .ci/run")
        pytest.skip(f"needs {' and '.join(missing)}")


def installed(package_json: Path) -> Path:
    """Return a folder with the packages that *package_json* names; they are installed once per machine.

    Without Node the test is skipped, but not in `.ci/run`.
    """
    require("node", "npm")
    listed = package_json.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "concertino"
    folder = cache / f"npm-{hashlib.sha256(listed).hexdigest()[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache))
        (made / "package.json").write_bytes(listed)
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(install, cwd=made, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    return folder
