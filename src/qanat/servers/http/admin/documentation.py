"""`/openapi.json` and `/docs`: the operations, for programs and for people, offline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import Any

import msgspec

from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.reply import Reply

_HTML = b"text/html; charset=utf-8"
_POLICY = ((b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"),)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary code { font-weight: 600; }
.method { display: inline-block; min-width: 4.5rem; font: 600 12px ui-monospace, monospace; }
.GET { color: #2a7ae2; } .POST { color: #1a8f4a; } .DELETE { color: #c43c3c; } .PUT, .PATCH { color: #b57a00; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
td, th { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line); }
pre { background: var(--soft); padding: .7rem; overflow: auto; border-radius: 6px; }
"""


class Documentation:
    """The document and the page of some operations, each made on first use."""

    def __init__(self, documented: Sequence[Operation]) -> None:
        self._documented = documented
        self.operations = (
            Operation("GET", "/openapi.json", self.openapi, "This document", "health", is_public=True),
            Operation("GET", "/docs", self.docs, "A page for people", "health", is_public=True),
        )

    @cached_property
    def _document(self) -> dict[str, Any]:
        # Imported on first use: most nodes never make the document.
        from qanat.servers.http.admin.openapi import document

        return document(self._documented)

    @cached_property
    def _page(self) -> str:
        return _page(self._document)

    async def openapi(self, exchange: Exchange) -> Reply:
        return Reply(200, msgspec.json.encode(self._document))

    async def docs(self, exchange: Exchange) -> Reply:
        return Reply(200, self._page.encode(), _HTML, _POLICY)


def _page(document: dict[str, Any]) -> str:
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Qanat over HTTP</title><style>{_STYLE}</style>",
        f"<h1>Qanat over HTTP</h1><p>{escape(document['info']['description'])}</p>",
        "<p>The same as a document for programs: <a href=/openapi.json>openapi.json</a> (OpenAPI 3.1).</p>",
    ]
    for tag in document["tags"]:
        rows = [
            _operation(path, method, operation, document)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if tag["name"] in operation["tags"]
        ]
        if rows:
            parts.append(f"<h2 id={tag['name']}>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>")
            parts += rows
    parts.append("<h2 id=schemas>schemas</h2>")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append(f"<details id=schema-{name}><summary><code>{name}</code></summary>{_schema(schema)}</details>")
    return "".join(parts)


def _operation(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    name = method.upper()
    parts = [
        f"<details id={escape(operation['operationId'])}><summary><span class='method {name}'>{name}</span>",
        f"<code>{escape(path)}</code> {escape(operation['summary'])}</summary>",
    ]
    if operation.get("parameters"):
        parts.append("<table><tr><th>parameter<th>in<th>type<th>meaning")
        parts += [
            f"<tr><td><code>{escape(one['name'])}</code>{' (needed)' if one['required'] else ''}<td>{one['in']}"
            f"<td>{_type(one['schema'])}<td>{escape(one.get('description', ''))}"
            for one in operation["parameters"]
        ]
        parts.append("</table>")
    for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body, <code>{media_type}</code>: {_type(body['schema'])}</p>")
    for status, answer in operation["responses"].items():
        for media_type, body in answer.get("content", {}).items():
            parts.append(f"<p>{status}, <code>{media_type}</code>: {_type(body['schema'])}</p>")
    parts.append(f"<pre>{escape(_curl(path, name, operation))}</pre></details>")
    return "".join(parts)


def _curl(path: str, method: str, operation: dict[str, Any]) -> str:
    command = f"curl -X {method} " if method != "GET" else "curl "
    needed = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query" and one["required"]]
    query = f"?{'&'.join(f'{name}=...' for name in needed)}" if needed else ""
    command += f"'http://localhost:8080{path}{query}'"
    if "requestBody" in operation:
        command += " -H 'Content-Type: application/json' -d '...'"
    return command


def _schema(schema: dict[str, Any]) -> str:
    parts = [f"<p>{escape(schema.get('description', ''))}</p><table>"]
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        parts.append(
            f"<tr><td><code>{escape(name)}</code>{' (needed)' if name in required else ''}<td>{_type(member)}"
            f"<td>{escape(member.get('description', ''))}"
        )
    return "".join([*parts, "</table>"])


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#schema-{escape(name)}'>{escape(name)}</a>"
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "prefixItems" in schema:
        return f"list of {len(schema['prefixItems'])}: {', '.join(map(_type, schema['prefixItems']))}"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    default = f", default {escape(str(schema['default']))}" if schema.get("default") is not None else ""
    return f"{escape(str(schema.get('type', 'any')))}{default}"
