"""`docs/reference/http-api.md`: every operation of the OpenAPI document that a broker serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """\
# HTTP: every operation

All operations of a broker's HTTP server, from its OpenAPI document: `GET /openapi.json`, or `/docs` in a browser.
[HTTP](../protocols/http.md) explains them with examples. This page is generated (`python -m tools.reference_pages`).
"""


def page(document: Mapping[str, Any]) -> str:
    """The whole page, operations by their tags."""
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append((method.upper(), path, operation))
    parts = [_HEAD]
    for tag, operations in by_tag.items():
        parts.append(f"## {tag.capitalize()}\n")
        for method, path, operation in operations:
            parts.append("\n".join(_operation(method, path, operation, document)) + "\n")
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield f"{operation['summary']}\n"
    if text := operation.get("description"):
        yield f"{text}\n"
    parameters = operation.get("parameters", ())
    fields = list(_fields(operation.get("requestBody", {}), document))
    if parameters or fields:
        yield "| input | in | type | meaning |\n| --- | --- | --- | --- |"
        for one in parameters:
            yield _row(one["name"], one["in"], one.get("schema", {}), one.get("description", ""), one.get("required"))
        for name, schema, is_required in fields:
            yield _row(name, "body", schema, schema.get("description", ""), is_required)
        yield ""
    yield f"Answers: {', '.join(operation['responses'])}."


def _row(name: str, where: str, schema: Mapping[str, Any], meaning: str, is_required: object) -> str:
    return f"| `{name}`{' (required)' if is_required else ''} | {where} | {_type(schema)} | {_flat(meaning)} |"


def _flat(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()).removesuffix(".")


def _fields(body: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    schema = _resolved(schema, document)
    for name, one in schema.get("properties", {}).items():
        yield name, one, name in schema.get("required", ())


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Any = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return _resolved(found, document)


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(one) for one in choices))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    return f"list of {_type(schema.get('items', {}))}" if kind == "array" else str(kind)
