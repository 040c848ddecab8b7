"""`/console`: the web console's files (`qanat.console`), read and compressed when the first browser asks for them.

Rule 1: the page runs its own scripts and nothing else: no inline script or style, nothing from elsewhere, nothing that
        turns text into code (`Content-Security-Policy`), and no other page may show it in a frame.
Rule 2: where brokers ask nobody to sign in, the console is for this machine only.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import ipaddress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from qanat.security.authentication import ANONYMOUS
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.reply import Headers, Reply

if TYPE_CHECKING:
    from qanat.servers.http.exchange import Exchange

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Headers = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept-encoding"),
)
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".md": b"text/plain; charset=utf-8",
}


class ConsoleFile(NamedTuple):
    """A file, as it is sent."""

    body: bytes
    compressed: bytes
    media_type: bytes
    tag: bytes


@cache
def console_files() -> dict[str, ConsoleFile]:
    """All files of the console by their path."""
    from importlib.resources import files

    found: dict[str, ConsoleFile] = {}
    root = files("qanat.console")
    for folder in ("", "screens/", "vendor/"):
        for one in (root / folder if folder else root).iterdir():
            media_type = _TYPES.get("." + one.name.rpartition(".")[2])
            if media_type is not None and one.is_file():
                body = one.read_bytes()
                tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:20].encode()
                found[folder + one.name] = ConsoleFile(body, gzip.compress(body, 9, mtime=0), media_type, tag)
    return found


def file_reply(name: str, accepted: bytes | None, known_tag: bytes | None) -> Reply:
    """A file of the console; raises a problem where there is none of that name."""
    file = console_files().get(name)
    if file is None:
        raise Problem(404, f"the console has no file {name[:100]}; it begins at /console")
    headers = (*HEADERS, (b"etag", file.tag))
    if known_tag == file.tag:
        return Reply(304, b"", file.media_type, headers)
    if b"gzip" in (accepted or b""):
        return Reply(200, file.compressed, file.media_type, (*headers, (b"content-encoding", b"gzip")))
    return Reply(200, file.body, file.media_type, headers)


async def console(exchange: Exchange) -> Reply:
    """The address without the slash, which relative addresses of the page need."""
    return Reply(308, b"", headers=((b"location", b"/console/"),))


async def console_page(exchange: Exchange) -> Reply:
    return await _answer(exchange, "index.html")


async def console_file(exchange: Exchange) -> Reply:
    return await _answer(exchange, exchange.path["file"])


async def console_screen(exchange: Exchange) -> Reply:
    return await _answer(exchange, f"screens/{exchange.path['file']}")


async def console_vendored(exchange: Exchange) -> Reply:
    return await _answer(exchange, f"vendor/{exchange.path['file']}")


async def _answer(exchange: Exchange, name: str) -> Reply:
    is_known = exchange.context.authentication.is_required or exchange.caller.principal != ANONYMOUS
    if not is_known and not _is_loopback(exchange.caller.host):
        raise Problem(
            403,
            "the console is for this broker's own machine, because the broker asks nobody to sign in: "
            "require authentication, or run `qanat console` there",
        )
    await asyncio.to_thread(console_files)
    return file_reply(name, exchange.header(b"accept-encoding"), exchange.header(b"if-none-match"))


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


_ANSWER = {"text/html": str}
OPERATIONS = (
    Operation("GET", "/console", console, "The web console", "health", status=308, is_public=True),
    Operation("GET", "/console/", console_page, "The web console", "health", answers=_ANSWER, is_public=True),
    Operation("GET", "/console/{file}", console_file, "Its files", "health", answers=_ANSWER, is_public=True),
    Operation(
        "GET", "/console/screens/{file}", console_screen, "Its screens", "health", answers=_ANSWER, is_public=True
    ),
    Operation(
        "GET", "/console/vendor/{file}", console_vendored, "Its libraries", "health", answers=_ANSWER, is_public=True
    ),
)
