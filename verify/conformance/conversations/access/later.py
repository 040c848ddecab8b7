"""Permissions on what Kafka 4.1 does not serve yet."""

from __future__ import annotations

from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import Make, ask_each, prepared
from verify.conformance.conversations.access import shares, transactions
from verify.conformance.play import Play
from verify.conformance.script import secured_conversation

REQUESTS: dict[ApiKey, Make] = {
    ApiKey.WRITE_TXN_MARKERS: transactions.REQUESTS[ApiKey.WRITE_TXN_MARKERS],
    ApiKey.SHARE_FETCH: shares.REQUESTS[ApiKey.SHARE_FETCH],
    ApiKey.SHARE_ACKNOWLEDGE: shares.REQUESTS[ApiKey.SHARE_ACKNOWLEDGE],
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: shares.REQUESTS[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS],
}


@secured_conversation
def permissions_of_kafka_4_2(play: Play) -> None:
    cast = prepared(play)
    ask_each(play, cast, REQUESTS)
    shares.begin_sessions(play, cast, 2)
