"""Which records a batch is refused for: by their place in it, with the graver of two faults for the whole."""

from __future__ import annotations

import pytest
from tests.log.batches import LIMIT, NOW, Pair, batch, log_settings

from qanat.log.admission import admit
from qanat.log.record_faults import READ_RECORDS_MAX
from qanat.model.errors import InflatesTooFarError, InvalidRecordError, InvalidTimestampError
from qanat.wire.compression import Codec

HOUR = 60 * 60 * 1000
KEYED: Pair = (b"k", b"v")
KEYLESS: Pair = (None, b"v")


def refusal(content: bytes, limit_bytes: int = LIMIT, **settings: object) -> InvalidRecordError:
    with pytest.raises(InvalidRecordError) as caught:
        admit(content, log_settings(**settings), NOW, limit_bytes)
    return caught.value


def places(fault: InvalidRecordError) -> list[int]:
    return [one.batch_index for one in fault.records]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_without_a_key_are_named_where_the_topic_is_compacted(codec: Codec) -> None:
    content = batch([KEYED, KEYLESS, KEYED, KEYLESS], codec=codec)
    fault = refusal(content, cleanup_policy="compact")
    assert (type(fault), places(fault)) == (InvalidRecordError, [1, 3])
    assert str(fault) == "2 of 4 records have no key; a compacted topic needs one"
    assert {one.message for one in fault.records} == {"a record of a compacted topic needs a key"}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_of_a_wrong_time_are_named(codec: Codec) -> None:
    content = batch(4, timestamps=[NOW - 2000, NOW, NOW + 2 * HOUR, -1], codec=codec)
    late = refusal(content)
    assert (type(late), places(late)) == (InvalidTimestampError, [2])
    both = refusal(content, message_timestamp_before_max_ms=1000)
    assert (type(both), places(both)) == (InvalidTimestampError, [0, 2])
    assert both.records[0].message == f"timestamp {NOW - 2000} is not within {NOW - 1000} and {NOW + HOUR}"


def test_a_wrong_time_is_the_graver_fault_and_a_record_has_one() -> None:
    content = batch([KEYED, KEYLESS, KEYED], timestamps=[NOW, NOW + 2 * HOUR, NOW + 2 * HOUR])
    fault = refusal(content, cleanup_policy="compact")
    assert (type(fault), places(fault)) == (InvalidTimestampError, [1, 2])
    assert [one.message[:9] for one in fault.records] == ["a record ", "timestamp"]


def test_times_are_not_looked_at_where_the_broker_sets_them() -> None:
    content = batch([KEYED, KEYLESS], timestamps=NOW + 2 * HOUR)
    fault = refusal(content, cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    assert (type(fault), places(fault)) == (InvalidRecordError, [1])


def test_a_very_large_batch_is_refused_without_names() -> None:
    assert places(refusal(batch([KEYLESS] * READ_RECORDS_MAX), cleanup_policy="compact")) == [*range(READ_RECORDS_MAX)]
    assert places(refusal(batch([KEYLESS] * (READ_RECORDS_MAX + 1)), cleanup_policy="compact")) == []


def test_a_batch_that_must_stay_closed_is_refused_without_names() -> None:
    fault = refusal(batch(timestamps=NOW + 2 * HOUR), 0)
    assert (type(fault), places(fault)) == (InvalidTimestampError, [])


def test_a_batch_that_inflates_too_far_for_the_event_loop_is_left_to_a_worker() -> None:
    content = batch([(b"k", bytes(5000))], timestamps=NOW + 2 * HOUR, codec=Codec.ZSTD)
    with pytest.raises(InflatesTooFarError):
        admit(content, log_settings(), NOW, 1000)
    assert places(refusal(content, 10_000)) == [0]
