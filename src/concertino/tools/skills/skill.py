"""`Skill`: a folder with a `SKILL.md`, checked when it is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError, ToolError
from ...extras import extra
from ...records import record

MAIN = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_COMPATIBILITY = 64, 1_024, 500
_MOST_BYTES = 1_000_000
_MOST_FILES = 200
_FRONT = re.compile(r"---\s*\n(.*?)\n---\s*(?:\n|$)(.*)", re.DOTALL)


@record(kw_only=True)
class Skill:
    """A skill. Its body and its files are read only when the model needs them."""

    name: str
    """Lowercase letters, digits and single hyphens, at most 64; also the name of its folder."""
    description: str
    """What it does and when to use it, at most 1,024 characters; part of the prompt."""
    folder: Path
    metadata: Mapping[str, Any]
    """The other fields of the front matter, such as `license` and `compatibility`."""

    def body(self) -> str:
        """Return the instructions. Raises `ToolError` if the file has gone."""
        try:
            return _parts(self.folder / MAIN)[1]
        except (OSError, ConfigurationError) as error:
            raise ToolError(f"skill {self.name!r} cannot be read: {error}") from None

    def files(self) -> list[str]:
        """Return the paths of the skill's other files, at most 200."""
        found = []
        for path in sorted(self.folder.rglob("*")):
            relative = path.relative_to(self.folder)
            hidden = any(part.startswith(".") for part in relative.parts)
            if path.is_file() and not hidden and relative.as_posix() != MAIN and self._is_inside(path):
                found.append(relative.as_posix())
                if len(found) == _MOST_FILES:
                    break
        return found

    def path(self, name: str) -> Path:
        """Return the absolute path of the file *name*. Raises `ToolError` if the skill has none, or it is outside."""
        path = self.folder / name
        if not name or "\0" in name or not self._is_inside(path) or not path.is_file():
            known = ", ".join(self.files()) or "none"
            raise ToolError(f"skill {self.name!r} has no file {name!r:.200}; its files are: {known:.2000}")
        return path.resolve()

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.folder.resolve())


def load_skills(folder: str | Path) -> tuple[Skill, ...]:
    """Return the skills in *folder*, which are its folders with a `SKILL.md`, by name.

    Raises `ConfigurationError` without a skill, or if one does not follow the specification.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ConfigurationError(f"no folder of skills at {root}")
    found = [_skill(path.parent) for path in sorted(root.glob(f"*/{MAIN}"))]
    if not found:
        raise ConfigurationError(f"no skills in {root}: each is a folder with a {MAIN}")
    return tuple(found)


def _skill(folder: Path) -> Skill:
    front, _ = _parts(folder / MAIN)
    where, name, description = f"skill {folder}", front.pop("name", None), front.pop("description", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ConfigurationError(f"{where}: invalid name {name!r:.80}: use a-z, 0-9 and single hyphens, at most 64")
    if name != folder.resolve().name:
        raise ConfigurationError(f"{where}: its name is {name!r}: a skill and its folder have the same name")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _LONGEST_DESCRIPTION:
        raise ConfigurationError(f"{where}: invalid description: use 1 to 1,024 characters")
    compatibility = front.get("compatibility", "")
    if not isinstance(compatibility, str) or len(compatibility) > _LONGEST_COMPATIBILITY:
        raise ConfigurationError(f"{where}: invalid compatibility: use at most 500 characters")
    return Skill(name=name, description=" ".join(description.split()), folder=folder, metadata=front)


def _parts(path: Path) -> tuple[dict[str, Any], str]:
    """Return the front matter and the body of a `SKILL.md`."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ConfigurationError(f"{path} has more than {_MOST_BYTES:,} bytes")
    try:
        matched = _FRONT.fullmatch(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8") from None
    if matched is None:
        raise ConfigurationError(f"{path} has no front matter: begin with '---', name, description and '---'")
    with extra("yaml", "reading skills"):
        import yaml  # noqa: PLC0415 - an extra
    try:
        front = yaml.safe_load(matched[1])
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"{path}: its front matter is not YAML: {error!s:.300}") from None
    if not isinstance(front, dict):
        raise ConfigurationError(f"{path}: its front matter must be fields and values")
    return front, matched[2].strip()
