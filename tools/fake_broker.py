"""A fake broker: just enough of Kafka's protocol for real clients to send and fetch batches.

It has one topic with one partition, in memory, as raw batches. `tools.capture_batches` records with it what real
producers send, and the wire tests let a real consumer read what Qanat encodes. It serves one old, inflexible version of
each API, so that every message fits on a few lines here.
"""

from __future__ import annotations

import contextlib
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator

from qanat.wire.batch_header import patch, read_header

TOPIC = "captured"

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 10, 18, 22

VERSIONS = {
    PRODUCE: 7,
    FETCH: 10,
    LIST_OFFSETS: 1,
    METADATA: 4,
    FIND_COORDINATOR: 0,
    API_VERSIONS: 0,
    INIT_PRODUCER_ID: 0,
}
"""The one served version of each API. librdkafka derives from these numbers which codecs it may use."""

UNSUPPORTED_VERSION = 35
OFFSETS_AT_START = -2
IDLE_FETCH_SECONDS = 0.05


class Reader:
    """Fields of a request, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(f">{layout}", self.data, self.position)
        self.position += struct.calcsize(f">{layout}")
        return values

    def take(self, length: int) -> bytes:
        self.position += max(length, 0)
        return self.data[self.position - max(length, 0) : self.position]

    def string(self) -> str:
        return self.take(self.unpack("h")[0]).decode()

    def blob(self) -> bytes:
        return self.take(self.unpack("i")[0])


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class FakeBroker:
    """The partition's batches, and the responses; clients connect to `address`."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.lock = threading.Lock()
        self.host, self.port = "127.0.0.1", 0
        self.answers: dict[int, Callable[[Reader], bytes]] = {
            PRODUCE: self.produce,
            FETCH: self.fetch,
            LIST_OFFSETS: self.list_offsets,
            METADATA: self.metadata,
            FIND_COORDINATOR: self.find_coordinator,
            API_VERSIONS: self.api_versions,
            INIT_PRODUCER_ID: self.init_producer_id,
        }

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def append(self, batch: bytes) -> int:
        """Append a batch; returns its base offset."""
        with self.lock:
            placed = bytearray(batch)
            base_offset = self.end_offset
            patch(placed, base_offset, 0)
            self.batches.append(bytes(placed))
            self.end_offset = read_header(placed).next_offset
            return base_offset

    def answer(self, frame: bytes) -> bytes | None:
        """The response to one request, without its length; None if the client wants none."""
        reader = Reader(frame)
        api, version, correlation = reader.unpack("hhi")
        reader.string()
        head = struct.pack(">i", correlation)
        if api == API_VERSIONS and version != VERSIONS[API_VERSIONS]:
            return head + self.api_versions(reader, UNSUPPORTED_VERSION)
        assert VERSIONS[api] == version, f"api {api} is served in version {VERSIONS[api]}, not {version}"
        body = self.answers[api](reader)
        return head + body if body else None

    def api_versions(self, _reader: Reader, error: int = 0) -> bytes:
        # Produce from 0 on, or older librdkafka believes that it may not compress (KAFKA-18659).
        ranges = [struct.pack(">hhh", api, 0 if api == PRODUCE else last, last) for api, last in VERSIONS.items()]
        return struct.pack(">hi", error, len(ranges)) + b"".join(ranges)

    def metadata(self, _reader: Reader) -> bytes:
        broker = struct.pack(">i", 0) + string(self.host) + struct.pack(">ih", self.port, -1)
        partition = struct.pack(">hiiiiii", 0, 0, 0, 1, 0, 1, 0)
        topic = struct.pack(">h", 0) + string(TOPIC) + struct.pack(">?i", False, 1) + partition
        return struct.pack(">ii", 0, 1) + broker + struct.pack(">hii", -1, 0, 1) + topic

    def find_coordinator(self, _reader: Reader) -> bytes:
        return struct.pack(">hi", 0, 0) + string(self.host) + struct.pack(">i", self.port)

    def init_producer_id(self, _reader: Reader) -> bytes:
        return struct.pack(">ihqh", 0, 0, 1000, 0)

    def produce(self, reader: Reader) -> bytes:
        reader.string()
        acks, _timeout, topics = reader.unpack("hii")
        assert topics == 1
        assert reader.string() == TOPIC
        assert reader.unpack("ii") == (1, 0)
        base_offset = self.append(reader.blob())
        partition = struct.pack(">iihqqq", 1, 0, 0, base_offset, -1, 0)
        return struct.pack(">i", 1) + string(TOPIC) + partition + struct.pack(">i", 0) if acks else b""

    def list_offsets(self, reader: Reader) -> bytes:
        reader.unpack("ii")
        reader.string()
        _partitions, _partition, timestamp = reader.unpack("iiq")
        offset = 0 if timestamp == OFFSETS_AT_START else self.end_offset
        return struct.pack(">i", 1) + string(TOPIC) + struct.pack(">iihqq", 1, 0, 0, -1, offset)

    def fetch(self, reader: Reader) -> bytes:
        reader.unpack("iiiibii")
        if reader.unpack("i") == (0,):
            time.sleep(IDLE_FETCH_SECONDS)
            return struct.pack(">ihii", 0, 0, 0, 0)
        reader.string()
        _partitions, _partition, _epoch, offset, _start, _limit = reader.unpack("iiiqqi")
        with self.lock:
            found = b"".join(batch for batch in self.batches if read_header(batch).last_offset >= offset)
            end = self.end_offset
        if not found:
            time.sleep(IDLE_FETCH_SECONDS)
        partition = struct.pack(">iihqqqii", 1, 0, 0, end, end, 0, 0, len(found)) + found
        return struct.pack(">ihii", 0, 0, 0, 1) + string(TOPIC) + partition


class Connection(socketserver.StreamRequestHandler):
    """Reads requests and writes responses until the client disconnects."""

    broker: FakeBroker

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while length := self.rfile.read(4):
                answer = self.broker.answer(self.rfile.read(struct.unpack(">i", length)[0]))
                if answer is not None:
                    self.wfile.write(struct.pack(">i", len(answer)) + answer)


class Server(socketserver.ThreadingTCPServer):
    """A thread per connection; none outlives the program."""

    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def running_broker() -> Iterator[FakeBroker]:
    """A fake broker on a free port of the loopback interface."""
    broker = FakeBroker()
    handler = type("BoundConnection", (Connection,), {"broker": broker})
    with Server((broker.host, 0), handler) as server:
        broker.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield broker
        finally:
            server.shutdown()
            thread.join()
