"""The options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Corpus = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH...",
        help="What to search: files and folders. May be repeated, and several may follow a question. "
        "Without it: the web if a search service is set up, else the documentation of Python's standard library.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER:MODEL",
        help="anthropic, openai, google or demo, and its model. Without it: by the key in the environment; "
        "without a key demo, which involves no language model.",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The SQLite file that keeps the runs. Without it: concertino/concertino.db in the user's data folder.",
    ),
]
Context = Annotated[
    int | None,
    typer.Option(
        metavar="TOKENS",
        min=1_000,
        help="Tokens that a request may have, its answer included. Without it: as many as the model takes.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, an object per line, and nothing else, to stdout.")]
App = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="For runs of your own agents: a function, importable from this folder, that takes the store and returns "
        "your concertino.runtime.Runtime. Without it: the agents of research and chat.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The key of the wait; runs show prints it.", show_default=False)
]
By = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who answers. Without it: the name of the user at this machine.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Take the run up at once, if this was the first answer.")]
