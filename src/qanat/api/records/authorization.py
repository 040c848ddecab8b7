"""Guards of what reads and writes records."""

from __future__ import annotations

from typing import Any

from qanat.api.authorization import GRANTED, AccessCheck, Denied, Granted, Verdict, sifted
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.wire.kafka.messages import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _may(access: AccessCheck, operation: Operation, name: str | None, topic_id: bytes) -> bool:
    """An id that nobody has is let through: the handler does not know it either."""
    found = access.topic_name(name, topic_id)
    return found is None or access.may_topic(operation, found)


def authorize_produce(request: produce.ProduceRequest, access: AccessCheck) -> Verdict:
    code = _DENIED
    transactional_id = request.transactional_id
    kept, denied = sifted(request.topic_data, lambda topic: _may(access, Operation.WRITE, topic.name, topic.topic_id))
    if transactional_id is not None and not access.may(
        Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id
    ):
        kept, denied, code = [], request.topic_data, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not denied:
        return GRANTED
    request.topic_data = kept

    def complete(response: produce.ProduceResponse | None) -> produce.ProduceResponse | None:
        if response is None:
            access.hang_up()  # Who expects no answer learns of a refusal only by the connection's end.
            return None
        for topic in denied:
            rows = [produce.PartitionProduceResponse(row.index, code, -1) for row in topic.partition_data]
            response.responses.append(produce.TopicProduceResponse(topic.name, topic.topic_id, rows))
        return response

    return Granted(complete)


def authorize_fetch(request: fetch.FetchRequest, access: AccessCheck) -> Verdict:
    """No sessions: what a session remembers would have to be asked about anew with every fetch."""
    if request.session_id == 0:
        request.session_epoch = -1
    kept, denied = sifted(request.topics, lambda topic: _may(access, Operation.READ, topic.topic, topic.topic_id))
    if not denied:
        return GRANTED
    request.topics = kept
    request.max_wait_ms = 0

    def complete(response: fetch.FetchResponse) -> fetch.FetchResponse:
        for topic in denied:
            rows = [
                fetch.PartitionData(row.partition, _DENIED, -1, aborted_transactions=[], records=[])
                for row in topic.partitions
            ]
            response.responses.append(fetch.FetchableTopicResponse(topic.topic, topic.topic_id, rows))
        return response

    return Granted(complete)


def authorize_list_offsets(request: list_offsets.ListOffsetsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name))
    request.topics = kept

    def complete(response: list_offsets.ListOffsetsResponse) -> list_offsets.ListOffsetsResponse:
        for topic in denied:
            rows = [list_offsets.ListOffsetsPartitionResponse(row.partition_index, _DENIED) for row in topic.partitions]
            response.topics.append(list_offsets.ListOffsetsTopicResponse(topic.name, rows))
        return response

    return Granted(complete) if denied else GRANTED


def authorize_delete_records(request: delete_records.DeleteRecordsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.DELETE, topic.name))
    request.topics = kept

    def complete(response: delete_records.DeleteRecordsResponse) -> delete_records.DeleteRecordsResponse:
        for topic in denied:
            rows = [
                delete_records.DeleteRecordsPartitionResult(row.partition_index, -1, _DENIED)
                for row in topic.partitions
            ]
            response.topics.append(delete_records.DeleteRecordsTopicResult(topic.name, rows))
        return response

    return Granted(complete) if denied else GRANTED


def authorize_leader_epochs(
    request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, access: AccessCheck
) -> Verdict:
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.topic))
    request.topics = kept

    def complete(response: Any) -> Any:
        for topic in denied:
            rows = [offset_for_leader_epoch.EpochEndOffset(_DENIED, row.partition) for row in topic.partitions]
            response.topics.append(offset_for_leader_epoch.OffsetForLeaderTopicResult(topic.topic, rows))
        return response

    return Granted(complete) if denied else GRANTED


def authorize_describe_producers(request: describe_producers.DescribeProducersRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    request.topics = kept

    def complete(response: Any) -> Any:
        for topic in denied:
            rows = [describe_producers.PartitionResponse(number, _DENIED) for number in topic.partition_indexes]
            response.topics.append(describe_producers.TopicResponse(topic.name, rows))
        return response

    return Granted(complete) if denied else GRANTED


def authorize_write_markers(request: Any, access: AccessCheck) -> Verdict:
    from qanat.wire.kafka.messages.write_txn_markers import (
        WritableTxnMarkerPartitionResult,
        WritableTxnMarkerResult,
        WritableTxnMarkerTopicResult,
        WriteTxnMarkersResponse,
    )

    if access.may_cluster(Operation.CLUSTER_ACTION):
        return GRANTED
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return Denied(
        WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    marker.producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            topic.name,
                            [WritableTxnMarkerPartitionResult(number, code) for number in topic.partition_indexes],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )
    )
