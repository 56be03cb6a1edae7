"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Corpus = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH...",
        help="Files and folders to search. Repeatable; several paths may follow a question. Default: the web if a "
        "search service is configured, else the documentation of Python's standard library.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER:MODEL",
        help="The model: anthropic, openai or google with a key in the environment; ollama:NAME, such as "
        "ollama:qwen3, for a local Ollama server without a key; openai-compatible:NAME for any other server, whose "
        "address is in OPENAI_COMPATIBLE_URL. Default: the first provider with a key, else the built-in model, "
        "which quotes sources and involves no language model.",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The SQLite file that stores the runs. Default: concertino/concertino.db in the user's data folder.",
    ),
]
ContextWindow = Annotated[
    int | None,
    typer.Option(
        "--context",
        metavar="TOKENS",
        min=1_000,
        help="Maximum tokens of a request with its answer. Default: the model's context window.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line to standard output.")]
App = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="For runs of your own agents: a function, importable from this folder, that takes the store and returns "
        "your concertino.runtime.Runtime. Default: the agents of research and chat.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The wait's key; runs show prints it.", show_default=False)]
By = Annotated[str | None, typer.Option(metavar="NAME", help="The person who answers. Default: your login name.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run at once if this answer is the first.")]
