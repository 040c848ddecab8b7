"""Which records compaction keeps, batch by batch, without files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import LIMIT, NOW, Pair, Writer, batch, examples, log_settings, marker

from qanat.log.compaction.retained_records import Cleaner, KeyMap
from qanat.log.files import Buffer
from qanat.log.producers import Producers
from qanat.wire.batch_header import batch_crc, read_header
from qanat.wire.filtering import KeyedRecord
from qanat.wire.records import decode_records

DELAY = 1000
SETTINGS = log_settings(cleanup_policy="compact", delete_retention_ms=DELAY)


def cleaner(
    now_ms: int = NOW,
    producers: Producers | None = None,
    aborted: list[tuple[int, int, int]] | None = None,
    limit_bytes: int = 1_000_000,
) -> Cleaner:
    return Cleaner(SETTINGS, producers or Producers(), aborted or [], now_ms, LIMIT, KeyMap(limit_bytes, 0))


def cleaned(batches: list[bytes], worker: Cleaner) -> list[Buffer]:
    """What is left after a whole pass."""
    for content in batches:
        worker.learn(read_header(content), content)
    kept = [worker.clean(read_header(content), content) for content in batches]
    return [content for content in kept if content is not None]


def pairs(batches: list[Buffer]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value) for content in batches for record in decode_records(content, LIMIT)
    ]


@examples
@given(
    groups=st.lists(
        st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.binary(max_size=3)), min_size=1, max_size=4),
        min_size=1,
        max_size=10,
    )
)
def test_of_every_key_the_last_value_stays_at_its_offset(groups: list[list[Pair]]) -> None:
    batches, offset = [], 0
    for group in groups:
        batches.append(batch(group, at=offset))
        offset += len(group)
    flat = [pair for group in groups for pair in group]
    last = {key: at for at, (key, _) in enumerate(flat)}
    expected = [(at, key, value) for at, (key, value) in enumerate(flat) if last[key] == at]
    left = cleaned(batches, cleaner())
    assert pairs(left) == expected
    extents = {read_header(content).base_offset: read_header(content).last_offset for content in batches}
    assert all(read_header(content).last_offset == extents[read_header(content).base_offset] for content in left)


def test_a_batch_that_loses_nothing_stays_the_very_same_bytes() -> None:
    content = batch([(b"a", b"1"), (b"b", b"2")])
    worker = cleaner()
    worker.learn(read_header(content), content)
    assert worker.clean(read_header(content), content) is content


def test_records_without_a_key_stay() -> None:
    batches = [batch([(None, b"1"), (b"a", b"-")]), batch([(None, b"2"), (b"a", b"+")], at=2)]
    assert pairs(cleaned(batches, cleaner())) == [(0, None, b"1"), (2, None, b"2"), (3, b"a", b"+")]


def test_a_tombstone_stays_for_its_delay_after_the_first_pass_and_no_longer() -> None:
    log: list[Buffer] = [batch([(b"a", b"1")]), batch([(b"a", None), (b"b", b"2")], at=1)]
    first = cleaned([bytes(content) for content in log], cleaner(NOW))
    assert pairs(first) == [(1, b"a", None), (2, b"b", b"2")]
    assert read_header(first[0]).delete_horizon_ms == NOW + DELAY
    second = cleaned([bytes(content) for content in first], cleaner(NOW + DELAY - 1))
    assert second == first, "the delay is not started again"
    third = cleaned([bytes(content) for content in second], cleaner(NOW + DELAY))
    assert pairs(third) == [(2, b"b", b"2")]


def test_timestamps_survive_the_delay_that_is_written_into_a_batch() -> None:
    content = batch([(b"a", None), (b"b", b"2")], timestamps=[NOW - 77, NOW - 5])
    (left,) = cleaned([content], cleaner())
    assert [record.timestamp for record in decode_records(left, LIMIT)] == [NOW - 77, NOW - 5]


def test_aborted_records_go_and_shadow_nothing() -> None:
    batches = [
        batch([(b"a", b"committed")]),
        batch([(b"a", b"aborted"), (b"c", b"aborted")], at=1, writer=Writer(7), is_transactional=True),
        marker(7, at=3, is_commit=False),
        batch([(b"c", b"committed")], at=4, writer=Writer(7, 0, 2), is_transactional=True),
        marker(7, at=5, is_commit=True),
    ]
    left = cleaned(batches, cleaner(aborted=[(7, 1, 3)]))
    assert [pair for pair in pairs(left) if not pair[1] or len(pair[1]) == 1] == [
        (0, b"a", b"committed"),
        (4, b"c", b"committed"),
    ]


def test_a_plain_batch_inside_the_extent_of_an_aborted_transaction_is_not_aborted() -> None:
    batches = [
        batch([(b"a", b"1")], at=0, writer=Writer(7), is_transactional=True),
        batch([(b"b", b"2")], at=1),
        batch([(b"c", b"3")], at=2, writer=Writer(8), is_transactional=True),
    ]
    assert [offset for offset, *_ in pairs(cleaned(batches, cleaner(aborted=[(7, 0, 3)])))] == [1, 2]


def test_a_marker_stays_while_its_transaction_has_records_and_for_a_delay_after_that() -> None:
    data = batch([(b"a", b"1")], writer=Writer(7), is_transactional=True)
    end = marker(7, at=1, is_commit=True)
    assert cleaned([data, end], cleaner()) == [data, end]
    (delayed,) = cleaned([end], cleaner(NOW))
    assert read_header(delayed).delete_horizon_ms == NOW + DELAY
    assert cleaned([bytes(delayed)], cleaner(NOW + DELAY - 1)) == [delayed]
    assert cleaned([bytes(delayed)], cleaner(NOW + DELAY)) == []


def test_a_marker_is_not_kept_by_the_records_of_another_transaction() -> None:
    first = marker(7, at=0, is_commit=True)
    data = batch([(b"a", b"1")], at=1, writer=Writer(7), is_transactional=True)
    other = batch([(b"b", b"1")], at=2, writer=Writer(8), is_transactional=True)
    left = cleaned([first, data, other, marker(7, at=3, is_commit=True)], cleaner())
    assert read_header(left[0]).delete_horizon_ms is not None
    assert read_header(left[3]).delete_horizon_ms is None


def test_the_last_batch_of_a_producer_keeps_its_header() -> None:
    batches = [
        batch([(b"a", b"1")], writer=Writer(7, 2, 5)),
        batch([(b"a", b"2")], at=1, writer=Writer(7, 2, 6)),
        batch([(b"a", b"3")], at=2),
    ]
    producers = Producers()
    for content in batches:
        producers.replay(read_header(content), content, NOW)
    left = cleaned(batches, cleaner(producers=producers))
    header = read_header(left[0])
    assert (header.base_offset, header.base_sequence, header.producer_epoch, header.record_count) == (1, 6, 2, 0)
    assert len(left) == 2
    assert cleaned([bytes(content) for content in left], cleaner(producers=producers)) == left


def test_what_cannot_be_opened_stays_as_it_is() -> None:
    broken = bytearray(batch([(b"a", b"1")]))
    broken[61:66] = b"\xff" * 5
    broken[17:21] = batch_crc(broken).to_bytes(4, "big")
    content = bytes(broken)
    assert cleaned([content, batch([(b"a", b"2")], at=1)], cleaner())[0] is content


def test_a_full_map_ends_after_the_batch_that_filled_it_and_what_lies_beyond_is_left_alone() -> None:
    batches = [batch([(b"key-%d" % (at % 7), None)], at=at) for at in range(50)]
    keys = KeyMap(800, 0)
    for content in batches:
        if keys.is_full:
            break
        header = read_header(content)
        keys.enter([KeyedRecord(header.base_offset, b"key-%d" % (header.base_offset % 7), False)], header.next_offset)
    assert 0 < keys.end_offset < 50
    worker = Cleaner(SETTINGS, Producers(), [], NOW, LIMIT, keys)
    beyond = batches[keys.end_offset]
    assert worker.clean(read_header(beyond), beyond) is beyond
