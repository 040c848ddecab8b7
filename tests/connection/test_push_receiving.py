"""What a push consumer has received: acknowledgements without gaps, positions that outlive connections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qanat.connection.push.receiving import CumulativeAcks, Positions, ResumePoint
from qanat.model.ids import TopicPartition

HERE = TopicPartition("prices", 0)


@given(order=st.permutations(range(1, 8)))
def test_an_ack_never_passes_a_frame_that_is_not_processed(order: list[int]) -> None:
    acks = CumulativeAcks()
    for frame_id in range(1, 8):
        acks.arrived(frame_id)
    done: set[int] = set()
    newest = 0

    for frame_id in order:
        done.add(frame_id)
        newest = max(newest, acks.done(frame_id))
        assert set(range(1, newest + 1)) <= done
        assert newest + 1 not in done

    assert newest == 7
    assert len(acks) == 0


def test_a_frame_that_is_processed_twice_is_acknowledged_once() -> None:
    acks = CumulativeAcks()
    acks.arrived(1)

    assert acks.done(1) == 1
    assert acks.done(1) == 0


def test_a_record_is_new_until_it_was_handed_out_and_again_after_a_reset() -> None:
    positions = Positions()
    assert positions.is_new(HERE, 4)
    positions.advance(HERE, 4, 2)

    assert not positions.is_new(HERE, 4)
    assert positions.is_new(HERE, 5)
    assert positions.known == {HERE: ResumePoint(5, 2)}
    positions.reset(HERE, 3, 1)
    assert positions.is_new(HERE, 3)
    assert not positions.is_new(HERE, 2)
