"""A registry that does not answer costs seconds, once, and the sentence says which one it was."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tools.toolchains import registries
from tools.toolchains.registries import MissingToolError, answers, need


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QANAT_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    answers.cache_clear()


@contextmanager
def _registry(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "is_there"), [(200, True), (404, True), (500, False), (503, False)])
def test_a_registry_answers_unless_its_server_fails(status: int, is_there: bool) -> None:
    with _registry(status) as url:
        assert answers(url) is is_there


def test_a_registry_that_accepts_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "LIMIT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/packages/"

        with pytest.raises(
            MissingToolError, match=r"127\.0\.0\.1:\d+ does not answer within .* so zig cannot be fetched"
        ):
            need(url, "zig")


def test_a_registry_is_asked_once() -> None:
    with _registry(200) as url:
        assert answers(url)

    assert answers(url), "it is gone by now, and nobody has noticed"


def test_offline_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_OFFLINE", "1")

    with _registry(200) as url, pytest.raises(MissingToolError, match="QANAT_OFFLINE=1 forbids to fetch zig"):
        need(url, "zig")
