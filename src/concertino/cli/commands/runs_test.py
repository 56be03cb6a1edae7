"""`concertino runs test`: a stored run becomes a pytest file."""

from __future__ import annotations

from pathlib import Path

from ...errors import ConfigurationError, RunStateError
from ...evaluation import pytest_file
from ...scope import OPERATOR
from ..app_function import app_function
from ..command_context import CommandContext
from .run_state import find_run


async def write_test(run_id: str, path: str | None, context: CommandContext) -> int:
    """Write the test. Raises `UnknownRunError`, `RunStateError`, and `ConfigurationError` if the file exists."""
    run = await find_run(context, run_id)
    if context.options.app is None:
        raise ConfigurationError("name the function that builds your Runtime with --app MODULE:NAME: the test calls it")
    app_function(context.options.app)
    journal = await context.store.load(OPERATOR, run_id)
    assert journal is not None
    try:
        source = pytest_file(journal, context.options.app)
    except RunStateError as problem:
        raise RunStateError(f"run {run_id} cannot become a test: {problem}") from None
    file = f"test_{run.start.agent}_{run_id[-8:]}.py" if path is None else path
    try:
        with Path(file).open("x", encoding="utf-8") as opened:  # noqa: ASYNC230 - a small file, once
            opened.write(source)
    except FileExistsError:
        raise ConfigurationError(f"{file} exists already: name another file with --save, or remove it") from None
    except OSError as error:
        raise ConfigurationError(f"the test cannot be written to {file}: {error.strerror}") from error
    context.console.notice(f"wrote {file}: run it with pytest")
    return 0
