"""The fast path of Produce: which batches take it, and its acknowledgements, many with one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from qanat.api.records.ack_timeouts import STEP_S, AckTimeouts
from qanat.servers.kafka.produce_fast_path import PLAIN_BYTES, is_plain
from qanat.wire.kafka.fast_produce import read_fast_produce
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch


def is_plain_when(
    value_bytes: int = 10, *, is_rotten: bool = False, is_readonly: bool = False, producer_id: int = -1
) -> bool:
    """What is said of one batch in a request of its own."""
    sequence = -1 if producer_id < 0 else 0
    record = Record(0, 0, None, bytes(value_bytes))
    content = encode_batch([record], producer_id=producer_id, producer_epoch=sequence, base_sequence=sequence)
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(content))])
    body = write_request(ProduceRequest(None, -1, 1000, [topic]), 7)
    frame = bytearray(b"".join(frame_request(0, 7, 1, "client", body))[4:])
    if is_rotten:
        frame[-1] ^= 1
    request = read_fast_produce(frame)
    assert request is not None
    view = memoryview(bytes(frame) if is_readonly else frame)
    return is_plain(request, view[request.start : request.end])


def test_a_small_sound_batch_without_a_producer_id_is_plain() -> None:
    assert is_plain_when()
    assert is_plain_when(PLAIN_BYTES - 100)


@pytest.mark.parametrize(
    "is_so",
    [
        lambda: is_plain_when(PLAIN_BYTES),
        lambda: is_plain_when(is_rotten=True),
        lambda: is_plain_when(is_readonly=True),
        lambda: is_plain_when(producer_id=7),
    ],
    ids=["large", "rotten", "not ours to write to", "of a known producer"],
)
def test_any_other_batch_is_looked_at_by_those_who_admit_it(is_so: Callable[[], bool]) -> None:
    assert not is_so()


class Answer:
    def __init__(self) -> None:
        self.late = asyncio.Event()

    def time_out(self) -> None:
        self.late.set()


async def test_only_an_expired_acknowledgement_times_out() -> None:
    ack_timeouts = AckTimeouts()
    impatient, patient, answered = Answer(), Answer(), Answer()
    ack_timeouts.begin(impatient, 0)
    ack_timeouts.begin(patient, 3600)
    ack_timeouts.begin(answered, 0)
    ack_timeouts.end(answered)
    await asyncio.wait_for(impatient.late.wait(), 30)
    ack_timeouts.close()

    assert not patient.late.is_set()
    assert not answered.late.is_set()


async def test_after_an_idle_time_the_next_acknowledgement_times_out() -> None:
    ack_timeouts = AckTimeouts()
    gone, next_one = Answer(), Answer()
    ack_timeouts.begin(gone, 3600)
    ack_timeouts.end(gone)
    await asyncio.sleep(3 * STEP_S)
    ack_timeouts.begin(next_one, 0)
    await asyncio.wait_for(next_one.late.wait(), 30)

    assert not gone.late.is_set()


async def test_no_acknowledgement_times_out_after_the_end() -> None:
    ack_timeouts = AckTimeouts()
    one = Answer()
    ack_timeouts.begin(one, 0)
    ack_timeouts.close()
    await asyncio.sleep(3 * STEP_S)

    assert not one.late.is_set()
