"""A push client as a stranger writes it: from docs/protocols/push.md alone, with nothing but Python's standard library.

It is a judge of that page. What it needs and the page does not say is a fault of the page; nothing here is taken from
Qanat.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import socket
import struct
from typing import Any, NamedTuple

DATA, ACK, SUBSCRIBE, COMMIT_OFFSET, RESET, READY, DISCONNECT, HEARTBEAT = range(1, 9)
FRAME = struct.Struct(">BQI")
RECORD = struct.Struct(">BHiiqqB")


class Frame(NamedTuple):
    kind: int
    id: int
    payload: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.payload or b"{}")


class Record(NamedTuple):
    frame_id: int
    topic: str
    partition: int
    epoch: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class DisconnectedError(Exception):
    """The broker has said goodbye; the reason is the first argument."""


class Stranger:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 20)
        self.stream = self.socket.makefile("rb")
        self.last_id = 0
        self.topics: list[str] = []
        self.early: list[Frame] = []
        """Frames that came while an answer was awaited."""

    def close(self) -> None:
        self.send(DISCONNECT)
        self.socket.close()

    # Frames

    def send(self, kind: int, payload: bytes = b"", frame_id: int | None = None) -> int:
        if frame_id is None:
            self.last_id += 1
            frame_id = self.last_id
        self.socket.sendall(FRAME.pack(kind, frame_id, len(payload)) + payload)
        return frame_id

    def say(self, kind: int, **fields: Any) -> int:
        return self.send(kind, json.dumps(fields).encode())

    def receive(self) -> Frame:
        while True:
            kind, frame_id, length = FRAME.unpack(self.stream.read(FRAME.size))
            frame = Frame(kind, frame_id, self.stream.read(length))
            if kind == DISCONNECT:
                raise DisconnectedError(frame.json.get("reason"), frame.json.get("message"))
            if kind != HEARTBEAT:
                return frame
            if frame_id:
                self.send(ACK, frame_id=frame_id)

    def answer_of(self, frame_id: int) -> Any:
        while True:
            frame = self.receive()
            if frame.kind == ACK and frame.id == frame_id:
                return frame.json
            self.early.append(frame)

    # Authentication: SASL SCRAM (RFC 5802), without channel binding

    def log_in(self, user: str, password: str) -> None:
        nonce = secrets.token_hex(12)
        first = f"n={user},r={nonce}"
        answer = self._token(f"n,,{first}", v=1, mechanism="SCRAM-SHA-512")
        server_first = base64.b64decode(answer["token"]).decode()
        said = dict(part.split("=", 1) for part in server_first.split(","))
        assert said["r"].startswith(nonce)
        salted = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(said["s"]), int(said["i"]))
        final = f"c=biws,r={said['r']}"
        signed = f"{first},{server_first},{final}".encode()
        key = hmac.digest(salted, b"Client Key", "sha512")
        signature = hmac.digest(hashlib.sha512(key).digest(), signed, "sha512")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        answer = self._token(f"{final},p={proof}")
        assert answer["authenticated"]
        broker_key = hmac.digest(salted, b"Server Key", "sha512")
        expected = base64.b64encode(hmac.digest(broker_key, signed, "sha512"))
        assert base64.b64decode(answer["token"]) == b"v=" + expected

    def _token(self, text: str, **fields: Any) -> Any:
        return self.answer_of(self.say(HEARTBEAT, token=base64.b64encode(text.encode()).decode(), **fields))

    # Consuming

    def subscribe(self, topics: list[str], **fields: Any) -> Any:
        self.topics = topics
        return self.answer_of(self.say(SUBSCRIBE, v=1, topics=topics, **fields))

    def next(self) -> Record | Frame:
        """The next record, or RESET and READY as they came, for the application to act on."""
        frame = self.early.pop(0) if self.early else self.receive()
        if frame.kind != DATA:
            return frame
        form, topic, partition, epoch, offset, timestamp, event = RECORD.unpack_from(frame.payload)
        assert form == 0
        key, at = _bytes(frame.payload, RECORD.size)
        value, at = _bytes(frame.payload, at)
        assert event == ord("D" if value is None else "M")
        (count,) = struct.unpack_from(">H", frame.payload, at)
        at, headers = at + 2, []
        for _ in range(count):
            (length,) = struct.unpack_from(">H", frame.payload, at)
            name, at = frame.payload[at + 2 : at + 2 + length].decode(), at + 2 + length
            content, at = _bytes(frame.payload, at)
            headers.append((name, content))
        assert at == len(frame.payload)
        return Record(frame.id, self.topics[topic], partition, epoch, offset, timestamp, key, value, headers)

    def acknowledge(self, frame_id: int, **fields: Any) -> None:
        self.send(ACK, json.dumps(fields).encode() if fields else b"", frame_id)

    def commit(self, record: Record) -> Any:
        position = {"topic": record.topic, "partition": record.partition, "offset": record.offset + 1}
        return self.answer_of(self.say(COMMIT_OFFSET, positions=[position]))

    # Producing

    def produce_to(self, topics: list[str], **fields: Any) -> Any:
        self.topics = topics
        return self.answer_of(self.say(HEARTBEAT, v=1, topics=topics, **fields))

    def write(
        self, topic: str, value: bytes | None, key: bytes | None = None, partition: int = -1, sequence: int = -1
    ) -> int:
        event = ord("D" if value is None else "M")
        front = RECORD.pack(0, self.topics.index(topic), partition, -1, sequence, -1, event)
        return self.send(DATA, front + _field(key) + _field(value) + struct.pack(">H", 0))


def _bytes(payload: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", payload, at)
    at += 4
    return (None, at) if length < 0 else (payload[at : at + length], at + length)


def _field(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content
