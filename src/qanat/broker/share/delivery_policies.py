"""Delivery policies: the settings for the deliveries of each share group."""

from __future__ import annotations

from collections.abc import Callable

from qanat.broker.replicas.partition import Partition
from qanat.broker.share.share_partition import Policy
from qanat.groups.group_overrides import GroupOverrides
from qanat.groups.share.offset_reset import Edge, Since, parse_offset_reset
from qanat.groups.share.rules import ShareRules
from qanat.log.runtime.log_runtime import LogRuntime

_WAIT_S = 1.0
"""How long a first fetch waits for a new leader to know its high watermark."""


class SharePolicies:
    """Looks settings up with every request, so that a change takes effect at once."""

    def __init__(self, group_overrides: Callable[[str], GroupOverrides], runtime: LogRuntime) -> None:
        self._own_settings = group_overrides
        self._runtime = runtime
        self._made: dict[GroupOverrides, Policy] = {}

    def of(self, group_id: str) -> Policy:
        """The same object as long as no setting changes."""
        own = self._own_settings(group_id)
        policy = self._made.get(own)
        if policy is None:
            policy = self._made[own] = _policy(own)
        return policy

    async def first_offset(self, group_id: str, partition: Partition) -> int:
        """Where a group starts in a partition that is new to it; raises what `have_high_watermark` raises."""
        own = self._own_settings(group_id)
        log = partition.log
        match parse_offset_reset(own.share_auto_offset_reset):
            case Edge.EARLIEST:
                return log.log_start_offset
            case Edge.LATEST:
                await partition.have_high_watermark(_WAIT_S)
                return log.high_watermark
            case Since(ago_ms):
                await partition.have_high_watermark(_WAIT_S)
                found = await self._runtime.find_timestamp(log, self._runtime.clock_ms() - ago_ms)
                return log.high_watermark if found is None else min(found.offset, log.high_watermark)


def _policy(own: GroupOverrides) -> Policy:
    topic = own.errors_deadletterqueue_topic_name.strip()
    rules = ShareRules(
        own.share_record_lock_duration_ms,
        own.share_delivery_count_limit,
        own.share_partition_max_record_locks,
        own.share_redelivery_backoff_ms,
        own.share_redelivery_backoff_max_ms,
        has_dead_letters=bool(topic),
    )
    return Policy(rules, own.share_isolation_level == "read_committed", topic)
