"""A conversation in progress: requests on raw connections, and every answer recorded in normal form.

    def unknown_topic(play: Play) -> None:
        play.exchange(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(...), "unknown topic")

The same code talks to Apache Kafka (`verify/conformance/record.py`) and to Qanat (`test_same_answers`). Timing is not
compared: `until` waits, for example for a topic's leader, and records nothing.

Rule: a conversation names everything by `play.name`, because one Kafka broker serves all of them.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from qanat.api.api_table import SERVED
from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import APIS, ApiKey
from verify.conformance.normal_form import Normaliser
from verify.conformance.users import PASSWORD, ROOT, USERS

UNAUTHENTICATED = "client"
"""How the names of connections begin that do not log in by themselves."""
CLOSED = "the connection is closed"
SILENCE = "no answer"
TIMEOUT_S = 6.0
"""No answer takes longer; Kafka does not answer some malformed requests."""
_UNTIL_S = 30.0
_SILENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Step:
    """A request's title, and its answer."""

    title: str
    answer: Any


class Connection:
    """One socket, and its unanswered requests."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self.unanswered: deque[tuple[ApiKey, int, int, str]] = deque()

    def close(self) -> None:
        self._socket.close()

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, key: ApiKey, version: int, request: Any, title: str, client_id: str | None) -> None:
        self._correlation_id += 1
        body = APIS[key].codec.write_request(request, version)
        self.unanswered.append((key, version, self._correlation_id, title))
        self.send_raw(b"".join(frame_request(key, version, self._correlation_id, client_id, body)))

    def frame(self, timeout_s: float = TIMEOUT_S) -> memoryview | str:
        """The next frame, or why there is none."""
        self._socket.settimeout(timeout_s)
        try:
            (size,) = struct.unpack(">i", self._exactly(4))
            return memoryview(self._exactly(size))
        except TimeoutError:
            return SILENCE
        except (EOFError, ConnectionError):
            return CLOSED

    def receive(self) -> tuple[str, Any]:
        """The title of the oldest request without an answer, and its answer."""
        key, version, expected_id, title = self.unanswered.popleft()
        frame = self.frame()
        if isinstance(frame, str):
            return title, frame
        correlation_id, position = read_response_header(frame, key, version)
        assert correlation_id == expected_id
        return title, APIS[key].codec.read_response(frame, version, position)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise EOFError
            received += more
        return bytes(received)


class Play:
    """One conversation with one broker; `on` names the connection, which is opened on first use."""

    def __init__(self, address: str, name: str, *, is_secured: bool = False) -> None:
        """On a secured broker, `on` names the user as well; a connection of any other name is the super user's."""
        self._address = address
        self._is_secured = is_secured
        self._connections: dict[str, Connection] = {}
        self._normaliser = Normaliser(name)
        self.name = name
        self.steps: list[Step] = []

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def versions(self, key: ApiKey, first: int = 0, last: int = 99) -> Iterable[int]:
        """Every version that Qanat serves, within these bounds."""
        served = SERVED[key]
        return range(max(first, served.first_version), min(last, served.last_version) + 1)

    def connection(self, on: str = "a") -> Connection:
        if on not in self._connections:
            self._connections[on] = Connection(self._address)
            if self._is_secured and not on.startswith(UNAUTHENTICATED):
                self._log_in(on)
        return self._connections[on]

    def _log_in(self, on: str) -> None:
        user = on if on in USERS else ROOT
        self.quietly(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"), on)
        token = f"\0{user}\0{PASSWORD}".encode()
        assert not self.quietly(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(token), on).error_code

    def disconnect(self, on: str = "a") -> None:
        self._connections.pop(on).close()

    def exchange(self, key: ApiKey, version: int, request: Any, note: str = "", on: str = "a") -> Any:
        """Send a request, and record its answer; returns the answer as it came."""
        self.send(key, version, request, note, on)
        return self.receive(on)

    def send(self, key: ApiKey, version: int, request: Any, note: str = "", on: str = "a") -> None:
        """Send a request; `receive` gets the answer."""
        place = "" if on == "a" else f" [{on}]"
        title = f"{APIS[key].name} v{version}{place}" + (f": {note}" if note else "")
        self.connection(on).send(key, version, request, title, "tester")

    def receive(self, on: str = "a") -> Any:
        """Receive and record the answer to the oldest unanswered request."""
        title, answer = self.connection(on).receive()
        self.note(title, answer)
        if isinstance(answer, str):
            self.disconnect(on)
        return answer

    def send_expecting_no_response(self, key: ApiKey, version: int, request: Any, note: str, on: str = "a") -> None:
        """Send a produce request with acks=0: no answer, or the end of the connection."""
        self.send(key, version, request, note, on)
        connection = self.connection(on)
        title = connection.unanswered.pop()[3]
        answer = connection.frame(_SILENCE_S)
        self.note(title, answer if isinstance(answer, str) else "an answer")
        if answer == CLOSED:
            self.disconnect(on)

    def introduce(self, kind: str, drawn: object) -> None:
        """Name an id that a broker drew, where answers would name several in the order of chance."""
        self._normaliser.introduce(kind, drawn)

    def note(self, title: str, answer: Any) -> None:
        self.steps.append(Step(title, answer if isinstance(answer, str) else self._normaliser.normal(answer)))

    def quietly(self, key: ApiKey, version: int, request: Any, on: str = "quiet") -> Any:
        """Send a request and receive its answer without recording it, for preparations."""
        connection = self.connection(on)
        connection.send(key, version, request, "", "tester")
        return connection.receive()[1]

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what one of the brokers does later than the other."""
        deadline = time.monotonic() + _UNTIL_S
        while not holds():
            assert time.monotonic() < deadline, f"{self.name}: timed out"
            time.sleep(0.02)
