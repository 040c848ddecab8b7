"""The bounded fetch: what it takes from a server, and what a slow, large or moved one gets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
import trustme
from tests.security.identity_provider import JwksServer

from qanat.connection.http_fetch import ANSWER_BYTES_MAX, FetchFailedError, check_url, fetch
from qanat.model.errors import InvalidSettingError


def fetched(url: str, timeout_s: float = 10.0) -> bytes:
    return fetch(check_url("a.url", url), timeout_s=timeout_s)


@pytest.fixture
def server() -> Iterator[JwksServer]:
    with JwksServer(b'{"keys": []}') as server:
        yield server


def test_a_document_is_fetched_with_its_query(server: JwksServer) -> None:
    assert fetched(server.url + "?tenant=a%20b#part") == b'{"keys": []}'
    assert server.paths == ["/keys?tenant=a%20b"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server: JwksServer, status: int) -> None:
    with JwksServer(b"stolen") as other:
        server.status = status
        server.headers = {"Location": other.url}
        with pytest.raises(FetchFailedError, match=f"status {status}: redirects are not followed"):
            fetched(server.url)
        assert other.paths == []


@pytest.mark.parametrize("status", [204, 404, 500])
def test_another_status_is_no_document(server: JwksServer, status: int) -> None:
    server.status, server.body = status, b""
    with pytest.raises(FetchFailedError, match=f"status {status}$"):
        fetched(server.url)


def test_a_document_at_the_limit_is_fetched_and_a_larger_one_is_not(server: JwksServer) -> None:
    server.body = b"x" * ANSWER_BYTES_MAX
    assert len(fetched(server.url)) == ANSWER_BYTES_MAX
    server.body += b"x"
    with pytest.raises(FetchFailedError, match="more than"):
        fetched(server.url)


def test_a_document_without_an_end_is_cut_at_the_limit(server: JwksServer) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        try:
            while True:
                request.wfile.write(b"x" * 65_536)
        except OSError:
            pass

    server.respond = endless
    with pytest.raises(FetchFailedError, match="more than"):
        fetched(server.url)


def _silent(request: BaseHTTPRequestHandler, over: threading.Event) -> None:
    over.wait(60)


def _in_the_head(request: BaseHTTPRequestHandler, over: threading.Event) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    over.wait(60)


def _dripping(request: BaseHTTPRequestHandler, over: threading.Event) -> None:
    """Never silent for long: only a limit for the whole ends it."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    try:
        while not over.wait(0.02):
            request.wfile.write(b"x")
    except OSError:
        pass


@pytest.mark.parametrize("respond", [_silent, _in_the_head, _dripping])
def test_a_slow_server_is_given_up(
    server: JwksServer, respond: Callable[[BaseHTTPRequestHandler, threading.Event], None]
) -> None:
    over = threading.Event()
    server.respond = lambda request: respond(request, over)
    with pytest.raises(FetchFailedError, match=r"no whole answer within 0\.3 s"):
        fetched(server.url, 0.3)
    over.set()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"SSH-2.0-x\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 200,
    ],
)
def test_a_broken_answer_is_no_document(server: JwksServer, answer: bytes) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(answer)

    server.respond = respond
    with pytest.raises(FetchFailedError):
        fetched(server.url)


def test_a_port_where_nothing_listens_is_named_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(FetchFailedError, match="nothing listens there"):
        fetched(f"http://127.0.0.1:{port}/")


@contextmanager
def https(context: ssl.SSLContext) -> Iterator[str]:
    with JwksServer(b"secret") as server:
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        yield server.url.replace("http", "https")


def test_only_a_certificate_that_is_trusted_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with https(context) as url:
        with pytest.raises(FetchFailedError, match="certificate is not trusted"):
            fetched(url)
        with authority.cert_pem.tempfile() as path:
            monkeypatch.setenv("SSL_CERT_FILE", path)
            assert fetched(url) == b"secret"
            with pytest.raises(FetchFailedError, match="certificate is not trusted"):
                fetched(url.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "login.example/keys",
        "file:///etc/passwd",
        "ftp://login.example/keys",
        "gopher://x/",
        "https://",
        "https:///keys",
        "http://login.example:0/",
        "http://login.example:99999/",
        "http://[::1/",
        "http://login.example/a b",
        "http://login.example/\r\nX: y",
    ],
)
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"a\.url should be a URL of https or http"):
        check_url("a.url", url)


def test_a_url_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidSettingError, match="no name or password") as caught:
        check_url("a.url", "https://me:s3cret@login.example/keys")
    assert "s3cret" not in str(caught.value)
