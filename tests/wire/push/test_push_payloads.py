"""Payloads of push frames: both forms of DATA, control frames, the plain dialect."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from qanat.model.errors import MalformedMessageError
from qanat.wire.push.control import (
    Ack,
    CommitOffset,
    Disconnect,
    Heartbeat,
    Mode,
    Position,
    Ready,
    Reset,
    Subscribe,
    Verdict,
    decode_control,
    encode_control,
)
from qanat.wire.push.data import (
    PushedBatches,
    PushedRecord,
    batches_front,
    decode_data,
    encode_record,
)
from qanat.wire.push.plain import decode_plain, plain_record

OPTIONAL = st.none() | st.binary(max_size=40)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.builds(
    PushedRecord,
    st.integers(0, 65_535),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    NUMBERS,
    NUMBERS,
    OPTIONAL,
    OPTIONAL,
    st.lists(st.tuples(st.binary(max_size=10), OPTIONAL), max_size=4).map(tuple),
)
KINDS = (Subscribe, Heartbeat, Ack, CommitOffset, Reset, Ready, Disconnect)


@given(record=RECORDS)
def test_a_record_comes_back_as_it_was(record: PushedRecord) -> None:
    assert decode_data(memoryview(encode_record(record))) == record
    assert chr(record.event) == ("D" if record.value is None else "M")


@given(record=RECORDS, data=st.data())
def test_every_truncation_of_a_record_is_refused(record: PushedRecord, data: st.DataObject) -> None:
    whole = encode_record(record)
    cut = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(MalformedMessageError):
        decode_data(memoryview(whole)[:cut])


@given(record=RECORDS, data=st.data())
def test_a_record_with_a_wrong_byte_is_another_record_or_is_refused(record: PushedRecord, data: st.DataObject) -> None:
    damaged = bytearray(encode_record(record))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))

    with suppress(MalformedMessageError):
        decoded = decode_data(memoryview(damaged))
        assert isinstance(decoded, PushedBatches) or encode_record(decoded) == bytes(damaged)


def test_a_record_with_bytes_behind_it_is_refused() -> None:
    record = encode_record(PushedRecord(0, 0, 0, 0, 0, None, b"value"))

    with pytest.raises(MalformedMessageError, match="1 bytes follow"):
        decode_data(memoryview(record + b"x"))


def test_batches_are_handed_on_without_being_read() -> None:
    decoded = decode_data(memoryview(batches_front(1, 2, 3, 40, 50) + b"batches"))

    assert isinstance(decoded, PushedBatches)
    assert decoded[:5] == (1, 2, 3, 40, 50)
    assert bytes(decoded.batches) == b"batches"


@pytest.mark.parametrize("payload", [b"", b"\x02rest", b"\x01short"])
def test_data_of_no_known_form_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_data(memoryview(payload))


@pytest.mark.parametrize(
    "value",
    [
        Subscribe(v=1, topics=["a", "b"], group="g", mode=Mode.QUEUE, positions=[Position("a", 0, 7, 2)], forms=[0, 1]),
        Heartbeat(v=1, mechanism="PLAIN", token="AGE="),
        Ack(verdict=Verdict.RELEASE),
        CommitOffset(positions=[Position("a", 3, 9)]),
        Reset("truncated", "a", 0, 5, 1),
        Ready("r-1"),
        Disconnect("malformed", "why"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_control_frame_comes_back_as_it_was(value: Struct) -> None:
    assert decode_control(type(value), encode_control(value)) == value  # type: ignore[arg-type,type-var]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(payload=st.binary(max_size=200))
def test_any_bytes_are_a_control_frame_or_refused(kind: type[Struct], payload: bytes) -> None:
    with suppress(MalformedMessageError):
        assert isinstance(decode_control(kind, payload), kind)  # type: ignore[type-var]


def test_fields_of_a_newer_client_are_ignored() -> None:
    payload = json.dumps({"v": 9, "topic": "prices", "colour": {"deep": [1, 2]}}).encode()

    assert decode_control(Subscribe, payload) == Subscribe(v=9, topic="prices")


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    payload = b'{"unknown":' + b"[" * 60_000 + b"]" * 60_000 + b"}"

    with pytest.raises(MalformedMessageError):
        decode_control(Subscribe, payload)


@pytest.mark.parametrize(
    "payload",
    [{"topics": ["a"] * 101}, {"topic": "x" * 257}, {"credit": {"records": -1}}, {"mode": "loud"}, {"positions": [{}]}],
)
def test_a_value_out_of_bounds_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(MalformedMessageError):
        decode_control(Subscribe, json.dumps(payload).encode())


def test_a_subscription_with_a_group_follows_the_log_and_one_without_sees_all() -> None:
    assert Subscribe(topic="prices", group="g").chosen_mode is Mode.LOG
    assert Subscribe(topic="prices").chosen_mode is Mode.ALL
    assert Subscribe(topic="prices").wanted == ("prices",)


@given(key=OPTIONAL, value=OPTIONAL)
def test_a_record_of_the_plain_dialect_comes_back_as_it_was(key: bytes | None, value: bytes | None) -> None:
    record = decode_plain(memoryview(plain_record("prices", 1, 2, 3, key, value)))

    assert (record.topic, record.partition, record.offset, record.timestamp) == ("prices", 1, 2, 3)
    assert (record.key_bytes, record.value_bytes) == (key, value)


@pytest.mark.parametrize("payload", [b"{}", b"[]", b'{"topic":"a","value_base64":"?"}', b"\xff"])
def test_a_plain_record_that_cannot_be_read_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_plain(memoryview(payload))
