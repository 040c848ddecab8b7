"""HTTP clients under fire: a writer with an API key that changes, and streams that must end with their key."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle

from verify.security_fire.clients import Errors, FireClient, Ledger, wait_until

_TIMEOUT_S = 30.0
_RETRIABLE = frozenset({408, 429, 500, 502, 503, 504})
_PAUSE_S = 0.05


class HttpWriter(FireClient):
    """Posts a record at a time, to one broker after the other; a record that failed is posted again."""

    def __init__(
        self, user: str, topic: str, ledger: Ledger, errors: Errors, ports: Iterable[int], authority: str, key: str
    ) -> None:
        super().__init__(user, errors)
        self._topic, self._ledger, self._ports = topic, ledger, cycle(ports)
        self._tls = ssl.create_default_context(cafile=authority)
        self._key, self._new_key = key, ""

    def use_key(self, key: str) -> None:
        """Use another key from now on; returns when no request with the one before is under way."""
        self._new_key = key
        wait_until(lambda: self._key == key, "the HTTP client takes its new key")

    def work(self) -> None:
        while not self.is_over:
            self._key = self._new_key or self._key
            self._post(self._ledger.next_value(self.user))
            time.sleep(_PAUSE_S)

    def _post(self, value: bytes) -> None:
        """Post until it is acknowledged, or refused for good."""
        body = json.dumps({"topic": self._topic, "value": value.decode()})
        headers = {"X-API-Key": self._key, "Content-Type": "application/json"}
        while True:
            try:
                status, answer = request(next(self._ports), self._tls, "POST", "/produce", headers, body)
            except (OSError, http.client.HTTPException):
                status, answer = 0, b""
            if status == 200:
                found = json.loads(answer)
                # A JSON text is stored as it was sent.
                self._ledger.acknowledged[json.dumps(value.decode()).encode()] = found["partition"], found["offset"]
                return
            if status and status not in _RETRIABLE:
                self.errors.fault(self.user, f"HTTP {status}: {answer[:300].decode(errors='replace')}")
                return
            self.errors.retriable += 1
            time.sleep(_PAUSE_S)


def request(
    port: int, tls: ssl.SSLContext, method: str, path: str, headers: dict[str, str], body: str | None = None
) -> tuple[int, bytes]:
    """Status and body of an answer."""
    with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=tls)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def seconds_until_streams_end(
    ports: Iterable[int], authority: str, key: str, topic: str, remove: Callable[[], None]
) -> list[float]:
    """Open a stream with the key at every broker, remove the key, and read on: how long each stream lasts then."""
    tls, path = ssl.create_default_context(cafile=authority), f"/api/v1/topics/{topic}/stream"
    streams = []
    try:
        for port in ports:
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=tls)
            streams.append(connection)
            connection.request("GET", path, headers={"X-API-Key": key})
        answers = [one.getresponse() for one in streams]
        if {one.status for one in answers} != {200}:
            raise RuntimeError(f"no stream for a valid API key: {[one.status for one in answers]}")
        with ThreadPoolExecutor(len(answers)) as pool:
            ends = [pool.submit(_read_to_end, one) for one in answers]
            remove()
            began = time.monotonic()
            return [end.result() - began for end in ends]
    finally:
        for connection in streams:
            connection.close()


def _read_to_end(answer: http.client.HTTPResponse) -> float:
    while answer.read1(65536):
        pass
    return time.monotonic()
