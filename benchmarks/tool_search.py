"""Hit rate and cost of `ToolSearch` with 500 tools: python -m benchmarks.tool_search

The tools are functions of the standard library, with the first sentence of their docstrings; the questions were worded
without looking at these. A hit is the wanted function among the first five results. The cost is that of the definitions
in the requests of a run with ten steps and two searches, at the prices of cached and uncached input.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

from concertino.agents.parts.tool_search import ranked
from concertino.providers.openai import TiktokenCounter
from concertino.tools import Tool

TOOLS, FOUND, STEPS, SEARCHES = 500, 5, 10, 2
CACHED, WRITTEN = 0.1, 1.25
"""Prices of input tokens that are read from and written to the cache, relative to plain input (Anthropic's)."""
MODULES = (
    *("shutil", "os.path", "os", "json", "csv", "re", "random", "math", "statistics", "textwrap", "difflib", "html"),
    *("glob", "gzip", "zlib", "bz2", "base64", "binascii", "hashlib", "hmac", "secrets", "uuid", "time", "calendar"),
    *("itertools", "functools", "operator", "heapq", "bisect", "copy", "pprint", "string", "unicodedata", "fnmatch"),
    *("subprocess", "shlex", "tempfile", "urllib.parse", "urllib.request", "socket", "ssl", "email.utils", "mimetypes"),
    *("platform", "getpass", "logging", "warnings", "traceback", "inspect", "ast", "dis", "tokenize", "importlib.util"),
    *("asyncio", "threading", "signal", "struct", "pickle", "sqlite3", "zipfile", "tarfile", "ipaddress", "cmath"),
    *(
        "colorsys",
        "wave",
        "stat",
        "filecmp",
        "linecache",
        "gc",
        "sys",
        "types",
        "typing",
        "enum",
        "dataclasses",
        "codecs",
    ),
)
QUESTIONS = {
    "copy a whole directory with everything below it": "shutil.copytree",
    "free space on a disk": "shutil.disk_usage",
    "where is the executable of a program": "shutil.which",
    "does this file exist": "os.path.exists",
    "size of a file in bytes": "os.path.getsize",
    "extension of a file name": "os.path.splitext",
    "text to a JSON object": "json.loads",
    "write data as JSON into a file": "json.dump",
    "replace a regular expression in a text": "re.sub",
    "all matches of a regular expression": "re.findall",
    "pick a random element": "random.choice",
    "greatest common divisor": "math.gcd",
    "square root": "math.sqrt",
    "standard deviation of a sample": "statistics.stdev",
    "median of numbers": "statistics.median",
    "wrap a paragraph to a width": "textwrap.fill",
    "remove common indentation": "textwrap.dedent",
    "similar words, close matches": "difflib.get_close_matches",
    "escape characters for HTML": "html.escape",
    "files that match a pattern": "glob.glob",
    "compress bytes with gzip": "gzip.compress",
    "checksum crc32": "zlib.crc32",
    "decode base64": "base64.b64decode",
    "secure random token in hexadecimal": "secrets.token_hex",
    "random UUID": "uuid.uuid4",
    "is it a leap year": "calendar.isleap",
    "cache the results of a function": "functools.lru_cache",
    "the n largest items": "heapq.nlargest",
    "insert into a sorted list": "bisect.insort_right",
    "deep copy of an object": "copy.deepcopy",
    "split a shell command line": "shlex.split",
    "create a temporary directory": "tempfile.mkdtemp",
    "parse a URL into components": "urllib.parse.urlparse",
    "percent-encode a string for a URL": "urllib.parse.quote",
    "host name of this machine": "socket.gethostname",
    "guess the MIME type of a file": "mimetypes.guess_type",
    "operating system name and version": "platform.platform",
    "ask the user for a password": "getpass.getpass",
    "compare two files": "filecmp.cmp",
    "convert RGB to HSV": "colorsys.rgb_to_hsv",
}


class _Documented(Tool):
    def __init__(self, name: str, description: str, parameters: list[str]) -> None:
        self.name, self.description = name, description
        self.parameters = {"type": "object", "properties": {each: {"type": "string"} for each in parameters}}

    def execute(self, arguments: dict[str, Any], context: Any) -> str:
        """Do nothing."""
        return ""


def _functions() -> Iterator[Tool]:
    wanted = set(QUESTIONS.values())
    others: list[Tool] = []
    for module in dict.fromkeys(MODULES):
        for name, function in sorted(vars(importlib.import_module(module)).items()):
            text = (inspect.getdoc(function) or "") if callable(function) else ""
            if name.startswith("_") or inspect.isclass(function) or not text:
                continue
            summary = text.partition("\n\n")[0].replace("\n", " ")[:300]
            tool = _Documented(f"{module}.{name}", summary, _parameters(function))
            if tool.name in wanted:
                yield tool
            else:
                others.append(tool)
    step = len(others) / (TOOLS - len(wanted))
    yield from [others[int(index * step)] for index in range(TOOLS - len(wanted))]


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def main() -> None:
    """Print the hit rate and the cost."""
    tools = list(_functions())
    names = [[tool.name for tool in ranked(tools, question, FOUND)] for question in QUESTIONS]
    pairs = zip(QUESTIONS.values(), names, strict=True)
    places = [found.index(wanted) + 1 if wanted in found else 0 for wanted, found in pairs]
    counter = TiktokenCounter()
    sizes = [counter.count(json.dumps([tool.name, tool.description, tool.parameters])) for tool in tools]
    whole, mean = sum(sizes), sum(sizes) / len(sizes)
    all_sent = whole * (WRITTEN + (STEPS - 1) * CACHED)
    shown = SEARCHES * FOUND * mean
    searched = shown * (WRITTEN + (STEPS - SEARCHES) * CACHED)
    print(f"{len(tools)} tools, {whole:,} tokens of definitions")
    found = sum(map(bool, places))
    print(f"hit rate: {found} of {len(QUESTIONS)} among the first {FOUND}, {places.count(1)} as the first")
    for question, wanted, place in zip(QUESTIONS, QUESTIONS.values(), places, strict=True):
        if not place:
            print(f"  missed: {question!r}, {wanted}")
    print(f"input for definitions in {STEPS} steps: {all_sent:,.0f} tokens, {searched:,.0f} with {SEARCHES} searches")
    print("A search also loses the cached conversation once: it costs 1.15 times the conversation's tokens so far.")


if __name__ == "__main__":
    main()
