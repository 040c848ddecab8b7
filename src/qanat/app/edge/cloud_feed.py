"""The test registry's server: who is whose parent, and messages to pull, as a registry in the cloud answers.

    GET  /api/v1/edge/topology/{node}              role, parents and topics of a node; with an ETag
    POST /api/v1/edge/nodes                        the same, for a node that registers
    GET  /api/v1/edge/feed/{topic}?offset=&limit=  messages of the feed from an offset on
    GET  /health

Every node is a LOCAL one below the node `cloud`, which is this server. It answers at once and parks nothing, keeps no
state, and knows nothing of who asks: it is for tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import msgspec

VERSION = 1
LIMIT_MAX = 1000
_BODY_BYTES_MAX = 64 * 1024
_TOPOLOGY = re.compile(r"/api/v1/edge/topology/([A-Za-z0-9][\w.-]{0,199})", re.ASCII)
_FEED = re.compile(r"/api/v1/edge/feed/([\w.-]{1,249})", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9][\w.-]{0,199}", re.ASCII)


class FeedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a feed."""

    key: str | None
    value: str | None
    type: str = "M"
    """`M`, or `D` for a key that is deleted."""
    timestamp: int | None = None
    headers: dict[str, str] = {}


class CloudFeed:
    """The feeds by topic, and the server that answers from them."""

    def __init__(self, feeds: Mapping[str, Sequence[FeedMessage]], host: str, port: int) -> None:
        """Listens from now on; raises `OSError` where it cannot."""
        self.feeds = feeds
        self.server = _Server((host, port), _Handler)
        self.server.feed = self
        self.url = f"http://{host}:{self.server.server_port}"

    def topology(self, node: str) -> dict[str, object]:
        parents = [{"node": "cloud", "url": self.url, "dialect": "json"}]
        topics = sorted(self.feeds)
        return {"node": node, "role": "LOCAL", "version": VERSION, "parents": parents, "topics": topics}

    def page(self, topic: str, offset: int, limit: int) -> dict[str, object]:
        messages = self.feeds[topic][offset : offset + limit]
        found = [{"offset": offset + i, **msgspec.to_builtins(one)} for i, one in enumerate(messages)]
        return {"topic": topic, "messages": found, "next_offset": offset + len(found), "log_start_offset": 0}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    feed: CloudFeed


class _RefusedError(Exception):
    """A request that gets a problem document."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30
    _TITLES: ClassVar[Mapping[int, str]] = {400: "Bad Request", 404: "Not Found", 413: "Content Too Large"}

    def do_GET(self) -> None:
        self._answer(self._read)

    def do_POST(self) -> None:
        self._answer(self._register)

    def _answer(self, work: Any) -> None:
        try:
            status, body, tag = work()
        except _RefusedError as refused:
            problem = {"title": self._TITLES[refused.status], "status": refused.status, "detail": str(refused)}
            self._send(refused.status, problem, None, "application/problem+json")
            return
        self._send(status, body, tag, "application/json")

    def _read(self) -> tuple[int, object, str | None]:
        url = urlsplit(self.path)
        if url.path == "/health":
            return 200, {"status": "HEALTHY"}, None
        if found := _TOPOLOGY.fullmatch(url.path):
            tag = f'"{VERSION}"'
            if self.headers.get("If-None-Match") == tag:
                return 304, None, tag
            return 200, self.server.feed.topology(found[1]), tag
        if found := _FEED.fullmatch(url.path):
            query = parse_qs(url.query)
            offset, limit = _number(query, "offset", 0, 2**63 - 1), _number(query, "limit", 100, LIMIT_MAX)
            if found[1] not in self.server.feed.feeds:
                known = ", ".join(sorted(self.server.feed.feeds))
                raise _RefusedError(404, f"there is no feed {found[1]!r}; there are {known}")
            return 200, self.server.feed.page(found[1], offset, limit), None
        raise _RefusedError(404, f"nothing is served at {url.path[:200]!r}")

    def _register(self) -> tuple[int, object, str | None]:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _BODY_BYTES_MAX:
            self.close_connection = True
            raise _RefusedError(413, f"a Content-Length of at most {_BODY_BYTES_MAX} is needed")
        body = self.rfile.read(int(length))
        if urlsplit(self.path).path != "/api/v1/edge/nodes":
            raise _RefusedError(404, f"nothing is served at {self.path[:200]!r}")
        try:
            node = msgspec.json.decode(body, type=dict[str, Any])["node"]
        except (msgspec.DecodeError, msgspec.ValidationError, KeyError):
            raise _RefusedError(400, 'a JSON object with "node" is needed') from None
        if not isinstance(node, str) or not _NODE.fullmatch(node):
            raise _RefusedError(400, f"{str(node)[:80]!r} is no node id: letters, digits and . _ -")
        return 200, self.server.feed.topology(node), f'"{VERSION}"'

    def _send(self, status: int, body: object, tag: str | None, kind: str) -> None:
        encoded = b"" if body is None else msgspec.json.encode(body) + b"\n"
        self.send_response(status)
        if tag is not None:
            self.send_header("ETag", tag)
        if body is not None:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        """Say nothing of requests: the command's output is for people."""


def _number(query: Mapping[str, list[str]], name: str, usual: int, most: int) -> int:
    text = query.get(name, [str(usual)])[-1]
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > most:
        raise _RefusedError(400, f"{name} is {text[:30]!r}, but must be a whole number from 0 to {most}")
    return int(text)
