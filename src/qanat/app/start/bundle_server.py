"""A support bundle in the console: its stored answers in place of a broker, for the browser of this machine.

Rule: it answers this machine's own pages only, and changes nothing.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from qanat.app.diagnosis.bundle_file import Bundle
from qanat.app.start.console_proxy import Receive, Scope, Send, refuse_others, send_reply
from qanat.servers.http.console_files import file_reply
from qanat.servers.http.problems import CONTENT_TYPE, Problem
from qanat.servers.http.reply import Reply

_LISTINGS = {"/api/v1/topics": "topics", "/api/v1/groups": "groups"}
_PAGE_MAX = 1000


class ConsoleBundle:
    """An ASGI application: the console's files, and the answers of a bundle."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            refuse_others(headers)
            await send_reply(send, self._reply(scope, headers))
        except Problem as problem:
            await send_reply(send, Reply(problem.status, problem.encode(scope["path"]), CONTENT_TYPE))

    def _reply(self, scope: Scope, headers: dict[str, str]) -> Reply:
        path = scope["path"]
        if path in ("/", "/console"):
            return Reply(307, b"", headers=((b"location", b"/console/"),))
        if path.startswith("/console/"):
            name = path.removeprefix("/console/") or "index.html"
            accepted = headers.get("accept-encoding", "").encode("latin-1")
            return file_reply(name, accepted, headers.get("if-none-match", "").encode("latin-1"))
        if scope["method"] not in ("GET", "HEAD"):
            raise Problem(409, "this is a bundle, and no cluster: nothing can be changed")
        return self._stored(
            scope["raw_path"].decode("latin-1").partition("?")[0], scope["query_string"].decode("latin-1")
        )

    def _stored(self, path: str, query: str) -> Reply:
        found = self._bundle.answers.get(path)
        if found is None:
            raise Problem(404, "this is not in the bundle: it has no records, users or rules, and not every detail")
        document = found.document
        if (path in _LISTINGS or path == "/api/v1/whoami") and not isinstance(document, dict):
            raise Problem(404, f"the bundle is damaged: {path} holds no document")
        if path in _LISTINGS and found.status == 200:
            document = _window(document, _LISTINGS[path], query)
        elif path == "/api/v1/whoami":
            document = {**document, "requires_sign_in": False, "bundle": self._bundle.manifest.get("made_at", "")}
        media_type = CONTENT_TYPE if found.status >= 400 and found.status != 503 else b"application/json"
        return Reply(found.status, json.dumps(document).encode(), media_type)


def _window(document: dict[str, Any], name: str, query: str) -> dict[str, Any]:
    """A part of a listing, as a broker would answer it: filtered, sorted, from an offset on."""
    wanted = {key: values[-1] for key, values in parse_qs(query).items()}
    key, search = name.removesuffix("s"), wanted.get("search", "").lower()
    label = "name" if key == "topic" else key
    listed = document.get(name)
    rows = [
        one
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
        and search in str(one.get(label, "")).lower()
        and wanted.get("type", one.get("type")) == one.get("type")
        and (key != "topic" or wanted.get("internal") == "true" or not one.get("internal"))
    ]
    order = wanted.get("sort", "name")
    if order in ("name", label):
        rows.sort(key=lambda one: str(one.get(label)))
    else:
        rows.sort(key=lambda one: -_number(one, order))
    if wanted.get("reverse") == "true":
        rows.reverse()
    begin, limit = _whole(wanted.get("offset"), 0), _whole(wanted.get("limit"), 100)
    return {**document, name: rows[begin : begin + min(limit, _PAGE_MAX)], "total": len(rows)}


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name, (row.get("traffic") or {}).get(name))
    return float(value) if isinstance(value, int | float) else -1.0


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdigit() else otherwise
