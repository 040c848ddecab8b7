"""A conversation being held: requests on raw connections, and every answer written down in a form that compares.

    def unknown_topic(play: Play) -> None:
        play.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(...), "unknown topic")

The same code talks to Apache Kafka (`verify/record_conformance.py`) and to Qanat (`test_same_answers`). What one of
them has to say later is not compared: waiting for a topic's leader is done with `until`, which writes nothing down.

Rule: a conversation names everything by `play.name`, because Kafka is one broker for all of them.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.conformance.normal import Normaliser

from qanat.api.api_table import SERVED
from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.registry import APIS, ApiKey

CLOSED = "the connection is closed"
SILENCE = "no answer"
TIMEOUT_S = 6.0
"""Nothing here has a reason to take longer; Kafka leaves some of what is malformed without an answer."""
_PATIENCE_S = 30.0
_SILENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Step:
    """What was asked, and what came back."""

    title: str
    answer: Any


class Connection:
    """One socket, and the requests on it that are not answered yet."""

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
        """The next frame, or that there is none."""
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
    """One conversation with one broker; `on` names the connection, which is made when first named."""

    def __init__(self, address: str, name: str) -> None:
        self._address = address
        self._connections: dict[str, Connection] = {}
        self._normaliser = Normaliser(name)
        self.name = name
        self.steps: list[Step] = []

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def versions(self, key: ApiKey, first: int = 0, last: int = 99) -> Iterable[int]:
        """Every version that we serve, within these bounds."""
        served = SERVED[key]
        return range(max(first, served.first_version), min(last, served.last_version) + 1)

    def connection(self, on: str = "a") -> Connection:
        if on not in self._connections:
            self._connections[on] = Connection(self._address)
        return self._connections[on]

    def hang_up(self, on: str = "a") -> None:
        self._connections.pop(on).close()

    def ask(self, key: ApiKey, version: int, request: Any, note: str = "", on: str = "a") -> Any:
        """Ask, wait, and write the answer down; the answer as it came is returned."""
        self.tell(key, version, request, note, on)
        return self.hear(on)

    def tell(self, key: ApiKey, version: int, request: Any, note: str = "", on: str = "a") -> None:
        """Ask, and leave the answer for `hear`."""
        place = "" if on == "a" else f" [{on}]"
        title = f"{APIS[key].name} v{version}{place}" + (f": {note}" if note else "")
        self.connection(on).send(key, version, request, title, "tester")

    def hear(self, on: str = "a") -> Any:
        """The answer to the oldest request without one, written down."""
        title, answer = self.connection(on).receive()
        self.note(title, answer)
        if isinstance(answer, str):
            self.hang_up(on)
        return answer

    def tell_and_expect_none(self, key: ApiKey, version: int, request: Any, note: str, on: str = "a") -> None:
        """For produce with acks=0: no answer, or the end of the connection."""
        self.tell(key, version, request, note, on)
        connection = self.connection(on)
        title = connection.unanswered.pop()[3]
        answer = connection.frame(_SILENCE_S)
        self.note(title, answer if isinstance(answer, str) else "an answer")
        if answer == CLOSED:
            self.hang_up(on)

    def note(self, title: str, answer: Any) -> None:
        self.steps.append(Step(title, answer if isinstance(answer, str) else self._normaliser.normal(answer)))

    def quietly(self, key: ApiKey, version: int, request: Any, on: str = "quiet") -> Any:
        """Ask without writing down: for what must be so before the conversation begins."""
        connection = self.connection(on)
        connection.send(key, version, request, "", "tester")
        return connection.receive()[1]

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what one of the two does later than the other."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{self.name}: waited in vain"
            time.sleep(0.02)
