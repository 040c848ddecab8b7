"""Produce (0): append one batch to each of some partitions.

v3   record batches only (older versions are refused: 0 to 2 are advertised, never served)
v5   log start offset in the answer     v7   zstd is allowed     v8   error message and bad records
v9   flexible    v10  the current leader, where it is another    v12  implicit transactions (TV2)
v13  topics by id

acks=0 is not answered; acks=1 is answered after the append; acks=all once the batch is on disk, where the topic's
`flush.messages` requires that.
A producer's first batch of a transaction in a partition waits for the transaction coordinator.
In place of a batch, a request may name a file of batches on the broker's machine, which becomes part of the log
(`wire.staged`), or bring a chunk of such a file, which the broker stores (`wire.staged_upload`).
A batch is appended whole or not at all; a refusal names its bad records (KIP-467).
Deviations: timestamps are checked by a batch's header, not record by record; a batch in flight behind one that was
refused for now gets the same error, not OUT_OF_ORDER_SEQUENCE_NUMBER (`refused_batches`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from operator import attrgetter
from typing import TYPE_CHECKING

from qanat.api.records.append import ALL, LEADER, NONE, may_append
from qanat.api.records.leader_hints import add_leader_hints
from qanat.api.records.transactional_produce import FirstWrites, first_writes, is_transactional, verify_transaction
from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.broker.replicas.durable_acknowledgement import DurableAcknowledgement
from qanat.broker.replicas.partition import Partition, Written
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidRecordError, QanatError, UnsupportedCompressionError
from qanat.model.ids import TopicId
from qanat.security.authorization import Operation, ResourceKind
from qanat.wire.batch_header import HEADER_SIZE, read_header
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from qanat.wire.staged import is_staged, read_staged
from qanat.wire.staged_upload import is_upload, read_upload

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict
    from qanat.api.permissions import Permissions

_ZSTD_FROM = 7
_LEADERS_FROM = 10
_TOPIC_IDS_FROM = 13
_PARTS_AT_ONCE = 50
"""Most partitions that are appended to in one piece; the first append to a log opens its files."""
_BYTES_AT_ONCE = 2 * 1024 * 1024
"""Most bytes in one piece: admission checks them and the log writes them."""

_WITH_LOG_START = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TIMESTAMP,
)
"""Errors that Kafka answers with the log start offset: by it a producer sees whether its records are deleted."""

_WRITE, _NAME = Operation.WRITE, attrgetter("name")
_TOPIC, _TRANSACTIONAL_ID = ResourceKind.TOPIC, ResourceKind.TRANSACTIONAL_ID
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NO_TRANSACTIONAL_ID = "a transactional batch needs the transactional id of its producer"

Part = tuple[Partition, memoryview, PartitionProduceResponse]


class Produce:
    """One request: its appends, and what its acknowledgement waits for."""

    __slots__ = ("_broker", "_caller", "_lacks_transactional_id", "_request", "_version", "_waiting", "response")

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self._request = request
        self._broker = context.broker
        self._caller = context.caller
        self._version = context.version
        self._lacks_transactional_id = _lacks_transactional_id(request)
        self._waiting: dict[SyncFuture[None], PartitionProduceResponse] = {}
        self.response = ProduceResponse([])

    def parts(self, broker: Broker, topics: list[TopicProduceData]) -> list[Part]:
        """The partitions to append to; the results of the others are set here."""
        parts: list[Part] = []
        acks = self._request.acks
        for topic in topics:
            results: list[PartitionProduceResponse] = []
            self.response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, results))
            for data in topic.partition_data:
                result = PartitionProduceResponse(data.index, base_offset=-1)
                results.append(result)
                found = self._find(topic, data.index, broker)
                if self._lacks_transactional_id:
                    _refuse(result, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONAL_ID)
                elif isinstance(found, ErrorCode):
                    result.error_code = found
                elif not data.records:
                    _refuse(result, ErrorCode.INVALID_RECORD, "a produce request needs exactly one batch per partition")
                elif acks == ALL and found.lacks_replicas:
                    _refuse(result, ErrorCode.NOT_ENOUGH_REPLICAS, _too_few(found))
                elif self._caller.refused_batches and (code := self._code_before(found, data.records)) is not None:
                    _refuse(result, code, "an earlier batch of this producer was refused: send that one first")
                else:
                    parts.append((found, data.records, result))
                if result.error_code and data.records:
                    self._note_refused(topic, data.index, data.records, result)
        return parts

    def _code_before(self, partition: Partition, batch: memoryview) -> ErrorCode | None:
        return self._caller.refused_batches.code_before(partition.at, batch, partition.log.producers)

    def _note_refused(
        self, topic: TopicProduceData, number: int, batch: memoryview, result: PartitionProduceResponse
    ) -> None:
        name = topic.name
        if self._version >= _TOPIC_IDS_FROM:
            known = self._broker.metadata.image.topics_by_id.get(TopicId.of(topic.topic_id))
            name = known.name if known is not None else ""
        if name:
            self._caller.refused_batches.note((name, number), batch, ErrorCode(result.error_code))

    def join_last(self) -> None:
        """Join the last two topics of the answer: they are two pieces of one."""
        last = self.response.responses.pop()
        self.response.responses[-1].partition_responses += last.partition_responses

    def _find(self, topic: TopicProduceData, number: int, broker: Broker) -> Partition | ErrorCode:
        if self._request.acks not in (ALL, LEADER, NONE):
            return ErrorCode.INVALID_REQUIRED_ACKS
        if self._version >= _TOPIC_IDS_FROM:
            found = broker.lookup.led_by_id(topic.topic_id, number)
            if isinstance(found, ErrorCode) or self._caller.is_inter_broker:
                return found
            return broker.lookup.writable(found.at.topic, number)
        if self._caller.is_inter_broker:
            return broker.lookup.led(topic.name, number)  # Brokers write to internal topics.
        return broker.lookup.writable(topic.name, number)

    def append(self, part: Part) -> bool:
        """Append now; False where the batch must wait for the disk or a worker."""
        partition, batch, _ = part
        try:
            if is_staged(batch):
                return False
            if self._version < _ZSTD_FROM:
                _refuse_zstd(batch)
            written = partition.append_now(batch)
            if written is None:
                return False
            self._appended(part, written)
        except QanatError as fault:
            self._refuse_append(part, fault)
        return True

    async def append_waiting(self, parts: list[Part]) -> None:
        """Append batches that must wait, in order; staged files concurrently, since they hold no memory."""
        for part in parts:
            partition, batch, _ = part
            if is_staged(batch):
                continue
            try:
                if self._version < _ZSTD_FROM:
                    _refuse_zstd(batch)
                self._appended(part, await partition.append(batch))
            except QanatError as fault:
                self._refuse_append(part, fault)
        await asyncio.gather(*(self._ingest(part) for part in parts if is_staged(part[1])))

    async def _ingest(self, part: Part) -> None:
        partition, batch, result = part
        try:
            if is_upload(batch):
                staged = self._broker.runtime.staged
                result.base_offset = await staged.store(partition.log, read_upload(batch), partition.leader_epoch)
            else:
                self._appended(part, await partition.ingest(read_staged(batch)))
        except QanatError as fault:
            self._refuse_append(part, fault)
            partition.advance()  # A part of the file may be in the log.

    def _appended(self, part: Part, written: Written) -> None:
        partition, _, result = part
        result.base_offset = written.base_offset
        result.log_append_time_ms = written.append_time_ms
        result.log_start_offset = partition.log.log_start_offset
        if written.durable is not None and self._request.acks == ALL:
            self._waiting[written.durable] = result

    def _refuse_append(self, part: Part, fault: QanatError) -> None:
        partition, batch, result = part
        refuse_part(result, fault)
        self._caller.refused_batches.note(partition.at, batch, fault.code)
        if isinstance(fault, InvalidRecordError):
            result.record_errors = [BatchIndexAndErrorMessage(*one) for one in fault.records]
        if result.record_errors or fault.code in _WITH_LOG_START:
            result.log_start_offset = partition.log.log_start_offset

    def answer(self) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
        """The answer: none, the response, or a future of it until everything is durable."""
        if self._request.acks == NONE:
            # A client that expects no answer learns of a fault by the connection's end, as in Kafka.
            is_refused = any(part.error_code for topic in self.response.responses for part in topic.partition_responses)
            if is_refused:
                self._caller.close()
            return None
        if not self._waiting:
            return self._complete()
        answered: SyncFuture[ProduceResponse] = SyncFuture()
        DurableAcknowledgement(
            self._waiting,
            refuse_part,
            lambda: answered.settle(self._complete()),
            self._broker.ack_timeouts,
            max(self._request.timeout_ms, 0) / 1000,
        )
        return answered

    def _complete(self) -> ProduceResponse:
        if self._version >= _LEADERS_FROM:
            add_leader_hints(self.response, self._broker, self._caller)
        return self.response


def authorize(request: ProduceRequest, access: AccessCheck) -> Verdict:
    """WRITE on each topic; a transactional producer needs WRITE on its transactional id as well, and must name it."""
    allowed, denied = access.split(request.topic_data, lambda topic: may_append(access, topic.name, topic.topic_id))
    code = _DENIED
    transactional_id = request.transactional_id
    if transactional_id is None:
        is_refused = bool(denied) and _lacks_transactional_id(request)  # The handler refuses it otherwise.
    else:
        is_refused = not access.may_transactional_id(_WRITE, transactional_id)
    if is_refused:
        allowed, denied, code = [], request.topic_data, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not denied:
        return access.grant()
    request.topic_data = allowed
    return _grant_without(denied, code, access)


def is_known_allowed(request: ProduceRequest, permissions: Permissions) -> bool:
    """Whether answers that are there already make `authorize` grant it all; no authorizer is asked."""
    transactional_id = request.transactional_id
    if transactional_id is not None and not permissions.knows(_WRITE, _TRANSACTIONAL_ID, (transactional_id,)):
        return False
    return permissions.knows(_WRITE, _TOPIC, map(_NAME, request.topic_data))


def _lacks_transactional_id(request: ProduceRequest) -> bool:
    """Whether it has a transactional batch, and not the transactional id that it needs: it is refused as a whole."""
    if request.transactional_id is None:
        for topic in request.topic_data:  # Not by `any`: a generator costs more than the question.
            for row in topic.partition_data:
                if is_transactional(row.records):
                    return True
    return False


def _grant_without(denied: list[TopicProduceData], code: ErrorCode, access: AccessCheck) -> Verdict:
    def complete(response: ProduceResponse | None) -> ProduceResponse | None:
        if response is None:
            access.caller.close()  # A client that expects no response learns of a refusal by the connection's end.
            return None
        for topic in denied:
            rows = [PartitionProduceResponse(row.index, code, -1) for row in topic.partition_data]
            response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, rows))
        return response

    return access.grant(complete)


def handle(request: ProduceRequest, context: RequestContext) -> object:
    produce = Produce(request, context)
    if context.is_long:
        return _in_pieces(produce, request, context)
    parts = produce.parts(context.broker, request.topic_data)
    if request.transactional_id is not None and (first := first_writes(parts)):
        return _append_verified(produce, request.transactional_id, parts, first, context)
    return _append(produce, parts, context)


def _append(produce: Produce, parts: list[Part], context: RequestContext) -> object:
    if len(parts) > 1 and (len(parts) > _PARTS_AT_ONCE or sum(len(batch) for _, batch, _ in parts) > _BYTES_AT_ONCE):
        return _append_in_pieces(produce, parts, context)
    for number, part in enumerate(parts):
        if not produce.append(part):
            return _append_rest(produce, parts[number:])
    return produce.answer()


async def _verify(transactional_id: str, parts: list[Part], first: FirstWrites, context: RequestContext) -> None:
    for number, error in (await verify_transaction(context, transactional_id, parts, first)).items():
        _refuse(parts[number][2], error, "the coordinator does not know this partition as part of the transaction")


async def _append_verified(
    produce: Produce, transactional_id: str, parts: list[Part], first: FirstWrites, context: RequestContext
) -> object:
    """Verify the transaction with its coordinator before the first write to a partition."""
    await _verify(transactional_id, parts, first, context)
    outcome = _append(produce, [part for part in parts if not part[2].error_code], context)
    return await outcome if isinstance(outcome, Coroutine) else outcome


async def _in_pieces(produce: Produce, request: ProduceRequest, context: RequestContext) -> object:
    """Append to very many partitions, and serve other requests in between."""
    async for topic in context.yielder.over(request.topic_data):
        is_begun = False
        async for piece in context.yielder.pieces(topic.partition_data):
            parts = produce.parts(context.broker, [TopicProduceData(topic.name, topic.topic_id, list(piece))])
            if is_begun:
                produce.join_last()
            is_begun = True
            if request.transactional_id is not None and (first := first_writes(parts)):
                await _verify(request.transactional_id, parts, first, context)
            await _append_each(produce, [part for part in parts if not part[2].error_code], context)
    return produce.answer()


async def _append_in_pieces(produce: Produce, parts: list[Part], context: RequestContext) -> object:
    await _append_each(produce, parts, context)
    return produce.answer()


async def _append_each(produce: Produce, parts: list[Part], context: RequestContext) -> None:
    async for part in context.yielder.over(parts):
        if not produce.append(part):
            await produce.append_waiting([part])


async def _append_rest(produce: Produce, parts: list[Part]) -> object:
    await produce.append_waiting(parts)
    return produce.answer()


def _refuse_zstd(batch: memoryview) -> None:
    if len(batch) >= HEADER_SIZE and read_header(batch).codec == Codec.ZSTD:
        raise UnsupportedCompressionError("zstd needs version 7 of Produce or later: upgrade the client")


def _too_few(partition: Partition) -> str:
    return (
        f"The size of the current ISR : {partition.in_sync_replicas} is insufficient to satisfy the min.isr "
        f"requirement of {partition.needed_in_sync} for partition {partition.at}"
    )


def refuse_part(result: PartitionProduceResponse, fault: QanatError) -> None:
    """Turn the answer of a partition into a refusal."""
    _refuse(result, fault.code, str(fault))


def _refuse(result: PartitionProduceResponse, code: ErrorCode, message: str) -> None:
    result.error_code = code
    result.error_message = message
    result.base_offset = -1
    result.log_append_time_ms = -1
    result.log_start_offset = -1
