"""Worker definitions in YAML and TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError
from ...extras import extra
from .definition import PreEnrichment, WorkerDefinition, check_fields

_SUFFIXES = (".toml", ".yaml", ".yml")


def load_worker(path: str | Path) -> WorkerDefinition:
    """Return the worker that the file at *path* defines: TOML, or YAML with the extra `yaml`.

    The file has the fields of `WorkerDefinition`; its prompts are templates. Raises `ConfigurationError` if the file
    cannot be read or a field is invalid, and `MissingExtraError`.
    """
    path = Path(path)
    values = read_values(path)
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise ConfigurationError(f"{path}: use the fields of a worker, such as 'id: record-analyst'")
    try:
        return _definition(dict(values))
    except (ConfigurationError, TypeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def load_workers(folder: str | Path) -> list[WorkerDefinition]:
    """Return the workers of all TOML and YAML files in *folder*, by file name. Raises as `load_worker`."""
    return [load_worker(path) for path in sorted(Path(folder).iterdir()) if path.suffix in _SUFFIXES]


def read_values(path: Path) -> Any:
    """Return the values in a TOML or YAML file. Raises `ConfigurationError` if it cannot be read."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    if path.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    if path.suffix not in _SUFFIXES:
        raise ConfigurationError(f"{path}: unknown format {path.suffix!r}: use {', '.join(_SUFFIXES)}")
    with extra("yaml", "reading YAML"):
        import yaml  # noqa: PLC0415 - an extra
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: its values are nested too deeply") from None


def _definition(values: dict[str, Any]) -> WorkerDefinition:
    check_fields("worker", values, WorkerDefinition)
    before = values.get("pre_enrichment")
    if before is not None:
        if not isinstance(before, Mapping):
            raise ConfigurationError(f"invalid pre_enrichment {before!r:.80}: use fields such as max_tools")
        check_fields("pre_enrichment", before, PreEnrichment)
        tools = [_choice(each) for each in before.get("default_tools", ())]
        values["pre_enrichment"] = PreEnrichment(**{**before, "default_tools": tools})
    return WorkerDefinition(**values)


def _choice(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping) and isinstance(value.get("tool"), str) and isinstance(value.get("params", {}), dict):
        return value["tool"], value.get("params", {})
    raise ConfigurationError(f"invalid default_tools entry {value!r:.80}: use a name, or 'tool' with 'params'")
