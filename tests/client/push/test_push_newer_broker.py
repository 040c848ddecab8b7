"""Push clients beside a broker of a later version: what they do not know is passed over, or is one clear sentence."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from qanat.client import AsyncPushConsumer, AsyncPushProducer
from qanat.model.errors import QanatError
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType, PushFrameReader, encode_frame

WAIT_S = 30.0
Script = Sequence[tuple[int, int, bytes]]
"""Frames of the broker: type, id (-1: that of the client's frame), payload."""
SUBSCRIBED = (
    b'{"v":2,"features":["batches","teleport"],"partitions":{"prices":1},"topic_ids":{"prices":"t"},"mode":"all",'
    b'"shards":[{"prices":{"0":[1,2]}}],"epoch":null}'
)
GREETED = b'{"v":2,"features":["teleport"],"partitions":{"prices":1},"producer":{"id":7,"epoch":0,"lane":3},"lanes":4}'


def record(offset: int, value: bytes, topic: int = 0) -> bytes:
    return encode_record(PushedRecord(topic, 0, 0, offset, 0, None, value))


@contextlib.asynccontextmanager
async def newer_broker(*scripts: Script) -> AsyncIterator[str]:
    """One that answers the first frame of each connection by the next script, and the last one again and again."""
    left = list(scripts)
    served: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        frames = PushFrameReader(2**20)
        script: Script = left.pop(0) if len(left) > 1 else left[0]
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                for frame in frames.received(data):
                    for kind, number, payload in script:
                        writer.write(encode_frame(kind, frame.id if number < 0 else number, payload))
                    script = ()
        writer.transport.abort()
        served.discard(asyncio.current_task())

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        while served:  # noqa: ASYNC110 - until every connection has seen that its client is gone
            await asyncio.sleep(0.001)


async def test_fields_that_a_consumer_does_not_know_are_passed_over_in_every_frame() -> None:
    first = (
        (FrameType.ACK, -1, SUBSCRIBED),
        (FrameType.HEARTBEAT, 0, b'{"load":0.5}'),
        (FrameType.DATA, 1, record(0, b"one")),
        (FrameType.RESET, 2, b'{"why":"moved","topic":"prices","partition":0,"offset":1,"epoch":0,"to":{"node":3}}'),
        (FrameType.DATA, 3, record(1, b"two")),
        (FrameType.DISCONNECT, 0, b'{"reason":"moving","message":"elsewhere","retry_after_ms":5}'),
    )
    again = ((FrameType.ACK, -1, SUBSCRIBED), (FrameType.DATA, 1, record(2, b"three")))
    async with (
        newer_broker(first, again) as address,
        AsyncPushConsumer(address, "prices", retry_backoff_ms=1) as consumer,
        asyncio.timeout(WAIT_S),
    ):
        found = [(await consumer.next()).value for _ in range(1)]
        while b"three" not in found:
            found.append((await consumer.next()).value)

        assert found in ([b"one", b"two", b"three"], [b"one", b"three"]), "what arrived with the end may come again"


async def test_fields_of_a_refresh_that_a_consumer_does_not_know_are_passed_over() -> None:
    script = (
        (FrameType.ACK, -1, SUBSCRIBED.replace(b'"all"', b'"log"')),
        (
            FrameType.RESET,
            1,
            b'{"why":"refresh","topic":"prices","refresh":"r","ranges":[{"partition":0,"start":0,"end":1,"sum":9}],"x":1}',
        ),
        (FrameType.DATA, 2, record(0, b"one")),
        (
            FrameType.READY,
            3,
            b'{"refresh":"r","topic":"prices","positions":[{"topic":"prices","partition":0,"offset":1,"x":0}],"x":[]}',
        ),
        (FrameType.DATA, 4, record(1, b"two")),
    )
    events: list[str] = []
    async with (
        newer_broker(script) as address,
        AsyncPushConsumer(
            address,
            "prices",
            group_id="g",
            on_reset=lambda refresh: events.append(f"reset {refresh.id}"),
            on_ready=lambda refresh: events.append(f"ready {refresh.id}"),
        ) as consumer,
        asyncio.timeout(WAIT_S),
    ):
        assert [(await consumer.next()).value for _ in range(2)] == [b"one", b"two"]
    assert events == ["reset r", "ready r"]


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ((9, 1, b"{}"), "there is no frame of type 9"),
        ((255, 1, b""), "there is no frame of type 255"),
        ((FrameType.DATA, 1, b"\x02" + bytes(40)), "DATA of form 2 is not known"),
        ((FrameType.DATA, 1, record(0, b"v", topic=7)), "DATA names topic 7"),
        ((FrameType.RESET, 1, b'{"why":7}'), "the payload of Reset cannot be read"),
        ((FrameType.ACK, -1, b'{"mode":"swarm"}'), "the payload of Ack cannot be read"),
    ],
)
async def test_what_a_consumer_cannot_read_is_one_sentence(frame: tuple[int, int, bytes], sentence: str) -> None:
    is_answer = frame[1] < 0
    script = (frame,) if is_answer else ((FrameType.ACK, -1, SUBSCRIBED), frame)
    async with newer_broker(script) as address, AsyncPushConsumer(address, "prices") as consumer:
        with pytest.raises(QanatError, match=sentence) as raised:
            await asyncio.wait_for(consumer.next(), WAIT_S)

    assert "\n" not in str(raised.value)


async def test_fields_that_a_producer_does_not_know_are_passed_over() -> None:
    script = (
        (FrameType.ACK, -1, GREETED),
        (FrameType.ACK, 2, b'{"partition":0,"offset":5,"replicas":[1,2],"took_us":17}'),
    )
    async with newer_broker(script) as address, AsyncPushProducer(address) as producer, asyncio.timeout(WAIT_S):
        assert (await (await producer.send("prices", b"v"))).offset == 5


@pytest.mark.parametrize("is_idempotent", [True, False])
async def test_a_frame_that_a_producer_does_not_know_fails_its_records_at_once(*, is_idempotent: bool) -> None:
    script = ((FrameType.ACK, -1, GREETED), (9, 0, b""))
    async with (
        newer_broker(script) as address,
        AsyncPushProducer(address, enable_idempotence=is_idempotent) as producer,
        asyncio.timeout(WAIT_S),
    ):
        with pytest.raises(QanatError, match="there is no frame of type 9"):
            await (await producer.send("prices", b"v"))
