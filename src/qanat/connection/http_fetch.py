"""A bounded HTTP request of our own: for documents of an identity provider, never for URLs that a client sends.

Rule 1: it has a deadline for all of it, a largest answer, and follows no redirect: a provider that is slow, broken or
        taken over can neither hold a thread nor fill memory, nor send us to another host.
Rule 2: `http` and `https` only; the certificate and the host name are checked. Proxies of the environment are not used.
Rule 3: it blocks. Call it in a worker.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError, QanatError

ANSWER_BYTES_MAX = 512 * 1024
TIMEOUT_S = 10.0
_PORTS = {"http": 80, "https": 443}


class FetchFailedError(QanatError):
    """There is no usable answer; the text says why, and shows neither the request nor the answer."""

    code = ErrorCode.NETWORK_EXCEPTION
    status: int | None = None
    """The status of the answer, where it is not 200."""


def check_url(setting: str, url: str) -> SplitResult:
    """The parts of a URL that may be fetched; raises `InvalidSettingError` for any other."""
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        is_fit = False
    if not is_fit or any(ord(one) <= 32 or ord(one) == 127 for one in url):
        raise InvalidSettingError(f"{setting} should be a URL of https or http, such as https://login.example/keys")
    if parts.username is not None or parts.password is not None:
        raise InvalidSettingError(f"{setting} should have no name or password in its URL")
    return parts


def fetch(
    parts: SplitResult,
    *,
    headers: Mapping[str, str] | None = None,
    form: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """The body of a GET, or of a POST of a form; raises `FetchFailedError` for anything but a whole answer of 200."""
    deadline = _Deadline(timeout_s)
    try:
        return _answer(parts, headers or {}, form, deadline)
    except (OSError, http.client.HTTPException, ValueError) as fault:
        if deadline.has_passed or isinstance(fault, TimeoutError):
            raise FetchFailedError(f"no whole answer within {timeout_s:g} s") from None
        raise FetchFailedError(_reason(fault)) from None
    finally:
        deadline.end()


class _Deadline:
    """Shuts the socket down when the time is over, whatever it is waiting for."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.socket: socket.socket | None = None
        self.has_passed = False
        self._timer = threading.Timer(timeout_s, self._pass)
        self._timer.daemon = True
        self._timer.start()

    def _pass(self) -> None:
        self.has_passed = True
        if self.socket is not None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self._timer.cancel()
        if self.socket is not None:
            self.socket.close()


def _answer(parts: SplitResult, headers: Mapping[str, str], form: bytes | None, deadline: _Deadline) -> bytes:
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    deadline.socket = socket.create_connection((host, port), deadline.timeout_s)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        deadline.socket = context.wrap_socket(deadline.socket, server_hostname=host, do_handshake_on_connect=False)
        deadline.socket.do_handshake()
    connection = http.client.HTTPConnection(host, parts.port)
    connection.sock = deadline.socket
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
    if form is not None:
        usual["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("GET" if form is None else "POST", target, form, {**usual, **headers})
    with connection.getresponse() as response:
        return _body(response, deadline)


def _body(response: http.client.HTTPResponse, deadline: _Deadline) -> bytes:
    if response.status != 200:
        hint = ": redirects are not followed" if 300 <= response.status < 400 else ""
        fault = FetchFailedError(f"it answers with status {response.status}{hint}")
        fault.status = response.status
        raise fault
    body = response.read(ANSWER_BYTES_MAX + 1)
    if len(body) > ANSWER_BYTES_MAX:
        raise FetchFailedError(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
    if deadline.has_passed or response.length:
        raise http.client.IncompleteRead(b"")
    return body


def _reason(fault: Exception) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {fault.verify_message.rstrip('.')}"
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(fault, socket.gaierror):
        return f"its name is not known here ({fault.strerror})"
    if isinstance(fault, OSError):
        return fault.strerror or "the connection broke"
    return "its answer is not whole or not HTTP"
