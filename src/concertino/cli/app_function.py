"""The function that `--app MODULE:NAME` names: it builds the product's `Runtime`."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import ConcertinoError, ConfigurationError
from ..runtime import Runtime
from .command_context import CommandContext

_PACKAGE = str(Path(__file__).parents[1])
_EXAMPLE = "such as shop.agents:make_runtime"


async def call_app(app: str, context: CommandContext) -> Runtime:
    """Return the runtime that the function named *app* builds. Raises `ConfigurationError`."""
    function = app_function(app)
    try:
        made = function(context.store)
        if inspect.isawaitable(made):
            made = await made
    except ConcertinoError:
        raise
    except (Exception, SystemExit) as error:  # a product's code may raise anything
        raise ConfigurationError(f"--app {app} failed: {_shown(error)}") from error
    if not isinstance(made, Runtime):
        raise ConfigurationError(f"--app {app} returned {made!r:.80}: it must return a concertino.runtime.Runtime")
    return made


def app_function(app: str) -> Callable[[Any], Any]:
    """Import the function named *app*. Raises `ConfigurationError`, which names the part of *app* that is wrong."""
    module_name, _, name = app.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigurationError(f"invalid --app {app!r}: use MODULE:NAME, {_EXAMPLE}")
    module = _module(app, module_name)
    if not hasattr(module, name):
        close = difflib.get_close_matches(name, vars(module), 1)
        meant = f"did you mean {close[0]!r}?" if close else "name a function that builds your Runtime"
        raise ConfigurationError(f"--app {app}: {module.__file__ or module_name} has no {name!r}: {meant}")
    function: Callable[[Any], Any] = getattr(module, name)
    if not callable(function) or function is Runtime:
        what = "name a function that takes the store and returns your Runtime"
        raise ConfigurationError(f"--app {app}: {name!r} is {function!r:.80}: {what}")
    try:
        inspect.signature(function).bind(object())
    except TypeError as error:
        raise ConfigurationError(f"--app {app}: {name!r} must take one argument, the store: {error}") from None
    except ValueError:
        pass  # a function without a signature
    return function


def _module(app: str, name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(f"--app {app}: {name} cannot be imported: {_shown(error)}") from error
        raise ConfigurationError(
            f"--app {app}: there is no module {error.name!r} in {folder} or among the installed packages: "
            "run the command where Python can import it"
        ) from None
    except (Exception, SystemExit) as error:  # as above
        raise ConfigurationError(f"--app {app}: {name} cannot be imported: {_shown(error)}") from error


def _shown(error: BaseException) -> str:
    """Return *error* with the last line of the product's code that led to it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_PACKAGE, "<")) and Path(frame.filename).parent.name != "importlib"
    ]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
