"""Redaction of recordings, and a search for secrets that redaction missed.

Headers are kept by an allow-list. Secrets in bodies and paths are recognised by the name of their field or parameter,
by their position in a URL or among headers, by their format, or because the user named them. The values of the removed
credentials are remembered, and the finished recording is searched for them: a leak by an unforeseen path prevents the
recording from being written.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from .case import CassetteError, Headers

LEFT_OUT = "--left-out--"
"""Replacement for a secret; neither JSON nor URLs escape its characters."""

_SHORTEST = 8
"""Shorter values are not searched for: they are common terms such as `none`."""

_KEPT = re.compile(
    r"""accept|content-type|anthropic-version|anthropic-beta|openai-beta|openai-version|openai-processing-ms|date
    |request-id|x-request-id|apim-request-id|x-amzn-requestid|x-amzn-bedrock-content-type
    |retry-after|retry-after-ms|x-should-retry|(anthropic|x)-ratelimit-[a-z-]+|x-ms-region|x-ms-deployment-name
    |x-gemini-service-tier""",
    re.VERBOSE,
)
_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|signature|credential|session|password")
_ACCOUNT = re.compile(r"organi[sz]ation|org-id|project|account|workspace|tenant|subscription")
"""Names of headers whose values the finished recording must not contain."""

_FIELDS = (
    r"(?:[\w-]*[_-]|(?-i:[\w-]*[a-z0-9](?=[A-Z])))?"
    r"(?:authorization|(?:authorization|auth|access|refresh|id|session|security|bearer)[_-]?token"
    r"|(?:api|subscription|private|secret|(?:secret[_-]?)?access)[_-]?key(?:[_-]?id)?|(?:(?:client|shared)[_-]?)?secret"
    r"|passw(?:or)?d|passphrase|credentials?|cookie|connection[_-]?string)"
)
_SECRET_NAME = re.compile(_FIELDS, re.IGNORECASE)
_SECRET_QUERY = re.compile(r"key|sig|signature|code|token|x-(?:amz|goog)-(?:signature|credential|security-token)", re.I)


def _fields(names: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return patterns for text fields with these *names*, each with its quotation mark.

    One pattern matches JSON, the other JSON inside a JSON string, such as the arguments of a call.
    """
    return (
        ('"', re.compile(rf'("{names}"\s*:\s*)"((?:[^"\\]|\\.)*)"', re.IGNORECASE)),
        ('\\"', re.compile(rf'(\\"{names}\\"\s*:\s*)\\"([^"\\]*)\\"', re.IGNORECASE)),
    )


_SECRET_FIELDS = _fields(_FIELDS)
_HEADER_FIELDS = _fields(r"[\w-]+")
_HEADERS = (
    re.compile(r'"(?:[\w-]*[_-])?headers"\s*:\s*\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}', re.IGNORECASE),
    re.compile(r'\\"(?:[\w-]*[_-])?headers\\"\s*:\s*\{[^{}]*\}', re.IGNORECASE),
)
"""Headers inside a body, which the provider sends to another server, such as an MCP server."""

_URL = re.compile(r'://[^\s"\\<>]+(?:\\u0026[^\s"\\<>]+)*')
_PASSWORD = re.compile(r"(://[^/?#:@]*:)[^/?#]+(?=@)")
_PARAMETER = re.compile(r"(?:(?<=[?&#])|(?<=\\u0026))([^=&#?\\]+)=([^&#\\]*)")

_FORMS = re.compile(
    # Not inside a longer run of letters: encrypted reasoning is base64 and may contain any of these. The letter of an
    # escaped line end does not count.
    r"(?:(?<![\w-])|(?<=\\[nrt]))(?:AIza[\w-]{30,}|gsk_\w{20,}|xai-\w{20,}|A[KS]IA[A-Z0-9]{16}|ya29\.[\w.-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|xox[a-z]-[\w-]{10,}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    # With a digit, to exclude ordinary text.
    r"|(?=[\w-]*[\d*])(?:sk-[\w*-]{8,}|org-\w{8,}|proj_\w{8,}))"
    r"|(?<=[Bb]earer )(?=[\w.~+/-]*\d)[\w.~+/-]{8,}=*"
    # A private key, to its end or to the end of the text.
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"(?:(?:[^\"-]|-(?!----))*-----END [A-Z ]*PRIVATE KEY-----|(?:[\w+/=\r\n]|\\+[nr])*)"
)
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CONTEXTS = (
    re.compile(rf"(\borgani[sz]ation\b[^\"{{}}]{{0,40}}?){_UUID}()"),
    re.compile(rf"(/subscriptions/){_UUID}()"),
    re.compile(r"(\bprojects/)[^/\"\s]+(/locations/)"),
    re.compile(r"(\barn(?::|%3A)aws[\w-]*(?:(?::|%3A)[\w-]*){2}(?::|%3A))\d{12}((?::|%3A))", re.IGNORECASE),
)
"""Ids of accounts, projects and organizations, by their surrounding text."""
_HOST = re.compile(
    r"^[^.]+(?:\.\d+)?(?=\.(?:openai\.azure\.com|(?:cognitiveservices|services\.ai)\.azure\.com|azuredatabricks\.net"
    r"|cloud\.databricks\.com)$)"
)
"""The customer's part of a host name."""


def is_secret_name(name: str, *, query: bool = False) -> bool:
    """Return whether a field, or a parameter of a *query*, with this name contains a secret."""
    return bool(_SECRET_NAME.fullmatch(name) or (query and _SECRET_QUERY.fullmatch(name)))


class Redaction:
    """The redaction of one recording; *secrets* are texts to remove everywhere."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._named = sorted({form for text in _checked(secrets) for form in _forms(text)}, key=len, reverse=True)
        self._seen: dict[str, str] = dict.fromkeys(self._named, "a text of secrets=")

    def headers(self, headers: Headers) -> Headers:
        """Return the headers on the allow-list. Remember the values of the others if they may be secret."""
        kept = []
        for name, value in headers:
            if _KEPT.fullmatch(name.lower()):
                kept.append((name.lower(), self.text(value)))
            elif name.lower() == "location":
                kept.append(("location", self.path(value)))
            else:
                for text in _secrets_of(name.lower(), value):
                    self._remember(text, f"the header {name.lower()}")
        return kept

    def path(self, path: str) -> str:
        """Redact a path with its query."""
        return self.text(_PARAMETER.sub(self._parameter, path))

    def host(self, host: str) -> str:
        """Redact the customer's part of a host name."""
        return self.text(_HOST.sub(LEFT_OUT, host))

    def body(self, body: bytes) -> bytes:
        """Redact a body. A binary body is not changed, only searched."""
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return body
        for mark, fields in _SECRET_FIELDS:
            text = fields.sub(partial(self._field, mark), text)
        for headers, (mark, fields) in zip(_HEADERS, _HEADER_FIELDS, strict=True):
            text = headers.sub(partial(self._headers_within, mark, fields), text)
        return self.text(text).encode()

    def text(self, text: str) -> str:
        """Redact the user's secrets, keys and account ids by their format, and secrets in URLs."""
        for secret in self._named:
            text = text.replace(secret, LEFT_OUT)
        text = _URL.sub(_bare, _FORMS.sub(LEFT_OUT, text))
        for pattern in _CONTEXTS:
            text = pattern.sub(rf"\g<1>{LEFT_OUT}\g<2>", text)
        return text

    def check(self, found: dict[str, Any]) -> None:
        """Search a finished recording in its file format.

        Raises `CassetteError` if it contains a secret; the message names the JSON path, not the secret.
        """
        sought = [(secret, source, _forms(secret)) for secret, source in self._seen.items()]
        for where, text in _texts("$", found):
            for secret, source, forms in sought:
                if any(form in text for form in forms):
                    remedy = "change that text" if secret in self._named else "name it in secrets=[...]"
                    raise CassetteError(
                        f"the recording was not written: the value of {source} would be in it, at {where}; {remedy}, "
                        "and record again"
                    )

    def _field(self, mark: str, found: re.Match[str]) -> str:
        value = found[2]
        if mark == '"':
            with suppress(ValueError):
                value = json.loads(f'"{value}"', strict=False)
        self._remember(value, f"a field {_name(found)}")
        return f"{found[1]}{mark}{LEFT_OUT}{mark}" if value else found[0]

    def _headers_within(self, mark: str, fields: re.Pattern[str], found: re.Match[str]) -> str:
        return fields.sub(partial(self._header, mark), found[0])

    def _header(self, mark: str, found: re.Match[str]) -> str:
        name = _name(found).lower()
        return self._field(mark, found) if _CREDENTIAL.search(name) and not _KEPT.fullmatch(name) else found[0]

    def _parameter(self, found: re.Match[str]) -> str:
        kept = _kept(found)
        if kept != found[0]:
            self._remember(unquote(found[2]), f"the parameter {found[1]}")
        return kept

    def _remember(self, secret: str, source: str) -> None:
        if len(secret) >= _SHORTEST and not secret.isdigit() and LEFT_OUT not in secret:
            self._seen.setdefault(secret, source)


def _name(found: re.Match[str]) -> str:
    """Return the name of a matched field."""
    return found[1].strip(': \r\n\t"\\')


def _kept(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={LEFT_OUT}" if is_secret_name(unquote(name), query=True) else parameter[0]


def _bare(url: re.Match[str]) -> str:
    """Redact a URL inside a text. The secret is not remembered: in an example URL it may be any common term."""
    return _PARAMETER.sub(_kept, _PASSWORD.sub(rf"\g<1>{LEFT_OUT}", url[0]))


def _checked(secrets: Iterable[str]) -> list[str]:
    if isinstance(secrets, str):
        raise CassetteError("invalid secrets=: use a list of texts, not one text")
    found = list(secrets)
    if any(len(text) < 4 for text in found):
        raise CassetteError(
            "a text in secrets= is shorter than four characters, so it would match too often; use a longer text"
        )
    return found


def _forms(secret: str) -> set[str]:
    """Return the forms in which a text may occur: plain, URL-quoted, JSON-escaped and base64."""
    whole = base64.b64encode(secret.encode()).decode()
    return {
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        whole,
    }


def _secrets_of(name: str, value: str) -> Iterator[str]:
    """Yield the parts of a header's value that may be secret."""
    if name == "set-cookie":
        yield value.partition(";")[0].partition("=")[2]
    elif name == "cookie":
        yield from (pair.partition("=")[2] for pair in value.split("; "))
    elif _CREDENTIAL.search(name):
        scheme, _, rest = value.partition(" ")
        yield value
        yield rest
        if scheme.lower() == "basic":
            with suppress(binascii.Error, UnicodeDecodeError):
                yield from base64.b64decode(rest).decode().split(":", 1)
        elif scheme.startswith("AWS4"):  # Credential=KEY/DATE/REGION/SERVICE/aws4_request, ..., Signature=HEX
            parts = dict(pair.strip().partition("=")[::2] for pair in rest.split(","))
            yield from (parts.get("Credential", "").split("/")[0], parts.get("Signature", ""))
    elif _ACCOUNT.search(name) and any(letter.isdigit() for letter in value):
        yield value


def _texts(where: str, found: Any) -> Iterator[tuple[str, str]]:
    """Yield every text in a recording with its JSON path, and the joined pieces of each stream."""
    match found:
        case dict():
            for name, value in found.items():
                if name == "body_base64":
                    yield f"{where}.{name}", base64.b64decode(value).decode("utf-8", "replace")
                yield from _texts(f"{where}.{name}", value)
                if name == "body" and isinstance(value, str):
                    yield from ((f"{where}.{name}", text) for text in _joined(value))
        case list():
            for index, value in enumerate(found):
                yield from _texts(f"{where}[{index}]", value)
        case str():
            yield where, found


def _joined(body: str) -> Iterator[str]:
    """Join the texts at the same JSON path across the events of a stream."""
    together: dict[str, list[str]] = {}
    for line in body.splitlines():
        try:
            event = json.loads(line.removeprefix("data:")) if line.startswith("data:") else None
        except ValueError:
            continue
        for where, text in _leaves("", event):
            together.setdefault(where, []).append(text)
    yield from ("".join(pieces) for pieces in together.values() if len(pieces) > 1)


def _leaves(where: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, item in value.items():
                yield from _leaves(f"{where}.{name}", item)
        case list():
            for item in value:
                yield from _leaves(where, item)
        case str():
            yield where, value
