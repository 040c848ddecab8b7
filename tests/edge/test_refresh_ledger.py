"""The ledger of refreshes: each step in its order, for its subscriber, until the refresh is over."""

from __future__ import annotations

from qanat.edge.refresh_ledger import Ask, Cancel, Move, begin, decide, unfinished
from qanat.model.push_refreshes import PartitionRefresh, PushRefresh, RefreshState

BEGUN = PushRefresh(
    id="r", group="g", topic="t", begun_ms=0, partitions=(PartitionRefresh(0, 2, 9, 1), PartitionRefresh(1, 0, 0))
)
ORDER = (RefreshState.REPLAYING, RefreshState.READYING, RefreshState.DONE)


def asked(entry: PushRefresh, now_ms: int = 10, reached: tuple[int, int] = (5, 1)) -> PushRefresh:
    made = decide(entry, Ask("r", {0: reached}), now_ms)
    assert made is not None
    return made


def moved(entry: PushRefresh | None, state: RefreshState, attempt: int = 1) -> PushRefresh | None:
    return decide(entry, Move("r", state, {0: attempt}), 20)


def test_a_partition_goes_through_its_states_in_order() -> None:
    entry: PushRefresh | None = asked(BEGUN)
    for state in ORDER:
        for later in ORDER[ORDER.index(state) + 1 :]:
            assert moved(entry, later) is None, "no step is left out"
        entry = moved(entry, state)
        assert entry is not None
        assert entry.partitions[0].state is state
        assert moved(entry, state) == entry, "a step that is written twice does no harm"
    assert entry is not None
    assert entry.partitions[1] == BEGUN.partitions[1]


def test_the_next_subscriber_ends_the_say_of_the_one_before() -> None:
    first = asked(BEGUN)
    second = asked(first)

    assert moved(second, RefreshState.REPLAYING, attempt=1) is None
    assert moved(second, RefreshState.REPLAYING, attempt=2) is not None


def test_the_end_is_not_before_what_a_subscriber_was_sent() -> None:
    assert asked(BEGUN, reached=(5, 1)).partitions[0].end == 9
    further = asked(BEGUN, reached=(12, 3)).partitions[0]
    assert (further.end, further.end_epoch) == (12, 3)


def test_the_time_without_an_answer_goes_on_over_subscribers_and_begins_again_with_an_answer() -> None:
    first = asked(BEGUN, 10)
    assert asked(first, 500).partitions[0].asked_ms == 10
    replaying = moved(first, RefreshState.REPLAYING)
    assert replaying is not None
    assert asked(replaying, 500).partitions[0].asked_ms == 500


def test_what_is_over_stays_over() -> None:
    given_up = moved(asked(BEGUN), RefreshState.GIVEN_UP)
    assert given_up is not None
    assert decide(given_up, Ask("r", {0: (0, -1)}), 30) is None
    assert moved(given_up, RefreshState.REPLAYING) is None
    cancelled = decide(given_up, Cancel("r"), 30)
    assert cancelled is not None
    assert [one.state for one in cancelled.partitions] == [RefreshState.GIVEN_UP, RefreshState.CANCELLED]
    assert cancelled.is_over
    assert unfinished(given_up, [0, 1, 7]) == (BEGUN.partitions[1],)


def test_steps_of_another_refresh_or_of_unknown_partitions_are_refused() -> None:
    assert decide(None, Cancel("r"), 0) is None
    assert decide(BEGUN, Cancel("other"), 0) is None
    assert decide(BEGUN, Ask("r", {7: (0, -1)}), 0) is None


def test_a_refresh_begins_when_the_one_before_is_over() -> None:
    assert begin(None, BEGUN) == BEGUN
    assert begin(BEGUN, BEGUN) is None
    over = decide(BEGUN, Cancel("r"), 0)
    assert begin(over, BEGUN) == BEGUN
