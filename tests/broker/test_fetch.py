"""Whether a follower's log is a prefix of the leader's log, and where the two diverge."""

from __future__ import annotations

import pytest
from tests.broker.test_partition import led
from tests.log.batches import batch
from tests.log.directories import running_log

from qanat.broker.replicas.fetch import Fetch, Found, Wanted, diverges
from qanat.broker.replicas.partition import Partition
from qanat.log.leader_epochs import EpochEnd
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import LeaderEpoch, Offset

MANY = 1024 * 1024


def ended(epoch: int, offset: int) -> EpochEnd:
    return EpochEnd(LeaderEpoch(epoch), Offset(offset))


def found(partition: Partition, offset: int, last_fetched_epoch: int) -> Found:
    """The response to a follower that has everything below `offset`, the last record written in this epoch."""
    wanted = Wanted(partition, offset, MANY, partition.leader_epoch, last_fetched_epoch)
    fetch = Fetch([wanted], MANY, 1, is_committed=False, is_follower=True)
    assert fetch.try_now()
    return fetch.found[0]


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "parting"),
    [
        (2, 1, None),
        (4, 3, None),
        (4, -1, None),
        (3, 1, ended(1, 2)),  # It went on in an epoch that had ended before.
        (2, 2, ended(1, 2)),  # It knows an epoch that the leader never had.
        (1, 2, ended(1, 2)),
        (5, 3, ended(3, 4)),  # It has more than the leader.
        (2, 3, ended(1, 2)),  # Its last header is damaged: the leader has that record in another epoch.
        (4, 9, ended(3, 4)),
        (5, 9, ended(3, 4)),
    ],
)
async def test_a_copy_parts_from_its_leader_where_the_epoch_of_its_last_record_ended(
    offset: int, last_fetched_epoch: int, parting: EpochEnd | None
) -> None:
    async with running_log() as (runtime, log):
        Partition(log, runtime, b"", 1).append_own(batch(2))
        partition = led(runtime, log)
        partition.append_own(batch(2))

        told = found(partition, offset, last_fetched_epoch)

        assert told.error is ErrorCode.NONE
        assert told.diverging == parting
        assert (told.read is None) == (parting is not None), "records only for a copy that is the beginning"


async def test_an_empty_copy_is_the_beginning_of_an_empty_log_in_its_own_epoch() -> None:
    async with running_log() as (runtime, log):
        partition = led(runtime, log)

        assert not diverges(Wanted(partition, 0, MANY, 3, last_fetched_epoch=3), partition)


async def test_a_copy_whose_epoch_is_before_all_that_the_leader_knows_parts_at_its_start() -> None:
    async with running_log() as (runtime, log):
        partition = led(runtime, log)
        partition.append_own(batch(2))

        assert found(partition, 2, 1).diverging == ended(1, 0)


async def test_a_consumer_of_an_epoch_that_the_leader_does_not_know_is_out_of_range() -> None:
    async with running_log() as (runtime, log):
        partition = led(runtime, log)
        partition.append_own(batch(2))
        fetch = Fetch([Wanted(partition, 2, MANY, 3, 9)], MANY, 1, is_committed=False, is_follower=False)

        assert fetch.try_now()

        assert fetch.found[0].error is ErrorCode.OFFSET_OUT_OF_RANGE
