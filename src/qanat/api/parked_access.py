"""Rights of parked requests: a fetch that waited is checked again where the rules changed meanwhile.

The authorization rule decides when a request comes. A fetch may wait long after that; records that came since then are
not for a client that has lost its right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.api.authorization import AccessCheck, Complete
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages import fetch, share_fetch
from qanat.wire.kafka.registry import ApiKey

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
Recheck = Callable[[Any, Any, AccessCheck], Any]


def recheck_when_changed(api_key: ApiKey, request: Any, access: AccessCheck) -> Complete | None:
    """Checks the response of a request that waits; None for APIs that do not wait for records."""
    recheck = _RECHECKS.get(api_key)
    if recheck is None:
        return None
    revision = access.permissions.revision

    def complete(response: Any) -> Any:
        return response if access.permissions.revision == revision else recheck(request, response, access)

    return complete


def _recheck_fetch(request: fetch.FetchRequest, response: fetch.FetchResponse, access: AccessCheck) -> Any:
    for topic in response.responses:
        if not access.may_topic_or_id(Operation.READ, topic.topic, bytes(topic.topic_id)):
            topic.partitions = [
                fetch.PartitionData(row.partition_index, _DENIED, -1, aborted_transactions=[], records=[])
                for row in topic.partitions
            ]
    return response


def _recheck_share_fetch(
    request: share_fetch.ShareFetchRequest, response: share_fetch.ShareFetchResponse, access: AccessCheck
) -> Any:
    """Records that were acquired meanwhile are given out again when their lock ends."""
    if not access.may_group(Operation.READ, request.group_id or ""):
        return share_fetch.ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for topic in response.responses:
        if not access.may_topic_or_id(Operation.READ, None, bytes(topic.topic_id)):
            topic.partitions = [
                share_fetch.PartitionData(
                    row.partition_index, _DENIED, acknowledge_error_code=row.acknowledge_error_code, records=b""
                )
                for row in topic.partitions
            ]
    return response


_RECHECKS: dict[ApiKey, Recheck] = {
    ApiKey.FETCH: _recheck_fetch,
    ApiKey.SHARE_FETCH: _recheck_share_fetch,
}
