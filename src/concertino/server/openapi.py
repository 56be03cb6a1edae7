"""The OpenAPI document of the endpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import TypeAdapter
from starlette.responses import Response

from .._version import __version__
from .endpoint import ApiEndpoint
from .error_form import ErrorForm
from .forms import EventsQuery
from .json_body import JSON

_Mode = Literal["validation", "serialization"]
_TEMPLATE = "#/components/schemas/{model}"
_NONE = type(None)


def openapi_document(endpoints: Sequence[ApiEndpoint]) -> dict[str, Any]:
    """Return the document that describes *endpoints*."""
    adapters: list[tuple[tuple[str, str], _Mode, TypeAdapter[Any]]] = [
        (("", "error"), "serialization", TypeAdapter(ErrorForm))
    ]
    for each in endpoints:
        adapters += [((_id(each), name), "validation", TypeAdapter(model)) for name, model in each.models.items()]
        if each.answer not in (_NONE, Response):
            adapters.append(((_id(each), "answer"), "serialization", TypeAdapter(each.answer)))
    found, shared = TypeAdapter.json_schemas(adapters, ref_template=_TEMPLATE)
    schemas = {name: schema for (name, _), schema in found.items()}
    definitions: dict[str, Any] = shared.get("$defs", {})
    paths: dict[str, Any] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas, definitions)
    return {
        "openapi": "3.1.0",
        "info": {"title": "concertino", "version": __version__},
        "paths": paths,
        "components": {"schemas": definitions},
    }


def _operation(endpoint: ApiEndpoint, schemas: dict[Any, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    own, answer = _id(endpoint), endpoint.answer
    made: dict[str, Any] = {
        "operationId": own,
        "summary": endpoint.summary.partition("\n")[0],
        "description": endpoint.summary,
        "tags": [endpoint.tag],
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    for part, where in (("query", "query"), ("headers", "header")):
        if part in endpoint.models:
            parameters += _parameters(_resolved(schemas[own, part], definitions), where)
    if parameters:
        made["parameters"] = parameters
    if "body" in endpoint.models:
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas[own, "body"]}}}
    elif endpoint.method == "POST" and endpoint.content:
        made["requestBody"] = {"required": True, "content": {kind: {} for kind in endpoint.content}}
    if answer is _NONE:
        success: dict[str, Any] = {"description": "Done."}
    elif answer is Response:
        success = {"description": "The content.", "content": {kind: {} for kind in endpoint.content}}
    else:
        success = {"description": "The answer.", "content": {JSON: {"schema": schemas[own, "answer"]}}}
    error = {"description": "An error.", "content": {JSON: {"schema": schemas["", "error"]}}}
    made["responses"] = {str(204 if answer is _NONE else endpoint.status): success, "default": error}
    if issubclass(endpoint.models.get("query", _NONE), EventsQuery):
        made["responses"]["204"] = {"description": "The log is complete: no event follows."}
    return made


def _parameters(schema: dict[str, Any], where: str) -> list[dict[str, Any]]:
    required = schema.get("required", ())
    return [
        {"name": name, "in": where, "required": name in required, "schema": _without_null(each)}
        for name, each in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional parameter: it is left out, and never null."""
    if "anyOf" not in schema:
        return schema
    (given,) = [each for each in schema["anyOf"] if each != {"type": "null"}]
    return {**given, **{name: value for name, value in schema.items() if name not in ("anyOf", "default")}}


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _id(endpoint: ApiEndpoint) -> str:
    return endpoint.name
