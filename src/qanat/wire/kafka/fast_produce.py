# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""The most common request, read natively: a Produce of one batch for one partition.

A client that does not batch sends nothing else, and waits mostly for the interpreter. `read_fast_produce` reads a
frame once and finds the batch. It decides nothing: a frame that is unusual, wrong or too new gives None and takes the
ordinary path (`messages/produce`), which also words the errors.

Compiled and interpreted like `wire.record_reader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.wire.batch_header import Buffer

COMPILED = not __file__.endswith(".py")
FIRST_VERSION = 3
FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
LAST_VERSION = 13
ZSTD_FROM = 7
START_FROM = 5
ERRORS_FROM = 8
FIRST_ANSWER = 44
START_ANSWER = FIRST_ANSWER + 8
ERRORS_ANSWER = START_ANSWER + 6
FLEXIBLE_ANSWER = 51
TOPIC_ID_ANSWER = 50
"""Sizes of answers without the topic's name or id."""
TOPIC_ID_SIZE = 16
CLIENT_ID_AT = 10
SMALLEST_BATCH = 61
LENGTH_AT = 8
BYTES_BEFORE_LENGTH = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 22
LAST_DELTA_AT = 23
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
COUNT_AT = 57
CODECS = 0x07
LAST_CODEC = 4
ZSTD = 4
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


def is_compiled() -> bool:
    return COMPILED


class FastHeader:
    """What an append needs to know of a batch whose header is sound; its checksum is not verified yet.

    It is a batch that a client may write and a topic stores unchanged: compressed or not, with a producer id or
    without, in a transaction or outside.
    """

    __slots__ = (
        "base_sequence",
        "crc",
        "is_transactional",
        "last_offset_delta",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    record_count: int
    last_offset_delta: int
    crc: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool

    @property
    def last_sequence(self) -> int:
        """As `BatchHeader.last_sequence`."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class FastProduce:
    """The fields of such a request; the batch is `frame[start:end]`, the client id ends at `client_id_end`.

    `topic` is its id from version 13 on. `header` is None where the ordinary path must look at the batch.
    """

    __slots__ = (
        "acks",
        "client_id_end",
        "correlation_id",
        "end",
        "header",
        "index",
        "start",
        "timeout_ms",
        "topic",
        "transactional_id",
        "version",
    )

    version: int
    correlation_id: int
    client_id_end: int
    acks: int
    timeout_ms: int
    index: int
    start: int
    end: int
    topic: bytes
    transactional_id: bytes | None
    header: FastHeader | None


def int16_at(data: Buffer, position: int) -> int:
    value = data[position] << 8 | data[position + 1]
    return value - 0x10000 if value & 0x8000 else value


def int32_at(data: Buffer, position: int) -> int:
    high = int16_at(data, position)
    return high * 0x10000 + (data[position + 2] << 8 | data[position + 3])


def uint32_at(data: Buffer, position: int) -> int:
    return data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]


def int64_at(data: Buffer, position: int) -> int:
    high = int32_at(data, position)
    return high * 0x10000 * 0x10000 + uint32_at(data, position + 4)  # A constant beyond 32 bits would be a Python int.


def read_fast_produce(frame: Buffer) -> FastProduce | None:
    """The request in a frame; None where it is not of this form."""
    view = frame if isinstance(frame, memoryview) else memoryview(frame)
    if COMPILED:
        return _read(native_bytes(view), len(view))  # type: ignore[name-defined]  # noqa: F821
    return _read(view, len(view))


def read_fast_header(batch: Buffer) -> FastHeader | None:
    """The header of a batch; None where only the ordinary path may say what is wrong with it, or unusual."""
    view = batch if isinstance(batch, memoryview) else memoryview(batch)
    if len(view) < SMALLEST_BATCH:
        return None
    if COMPILED:
        return _header(native_bytes(view), 0, len(view))  # type: ignore[name-defined]  # noqa: F821
    return _header(view, 0, len(view))


def _read(data: Buffer, size: int) -> FastProduce | None:
    if size < 10 or data[0] != 0 or data[1] != 0:
        return None
    version = int16_at(data, 2)
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    length = int16_at(data, 8)
    if length < -1:
        return None
    position = 10
    if length > 0:
        position += length
    # Everything but the topic's name and the batch fits into the bytes of the smallest batch.
    if position + SMALLEST_BATCH > size:
        return None
    for at in range(10, position):
        if data[at] >= 0x80:
            return None
    request = FastProduce.__new__(FastProduce)  # In C without a call.
    request.transactional_id = None
    request.header = None
    request.version = version
    request.correlation_id = int32_at(data, 4)
    request.client_id_end = position
    if version >= FLEXIBLE_FROM:
        return _flexible(data, position, size, request)
    return _plain(data, position, size, request)


def _plain(data: Buffer, position: int, size: int, request: FastProduce) -> FastProduce | None:
    length = int16_at(data, position)
    if length >= 0:
        if position + length + SMALLEST_BATCH > size or not _is_plain_name(data, position + 2, length):
            return None
        request.transactional_id = bytes(data[position + 2 : position + 2 + length])
        position += length
    elif length != -1:
        return None
    if int32_at(data, position + 8) != 1:
        return None
    request.acks = int16_at(data, position + 2)
    request.timeout_ms = int32_at(data, position + 4)
    length = int16_at(data, position + 12)
    position += 14
    if length < 1 or position + length + 12 > size or not _is_plain_name(data, position, length):
        return None
    request.topic = bytes(data[position : position + length])
    position += length
    if int32_at(data, position) != 1:
        return None
    request.index = int32_at(data, position + 4)
    length = int32_at(data, position + 8)
    request.start = position + 12
    request.end = request.start + length
    if request.end != size:
        return None
    return request if _is_usual(data, request) else None


def _flexible(data: Buffer, position: int, size: int, request: FastProduce) -> FastProduce | None:
    # No tags, a short transactional id or none; then acks, timeout, and a list of one topic.
    length = data[position + 1] - 1
    if data[position] != 0 or length > 126:
        return None
    if length >= 0:
        if position + length + SMALLEST_BATCH > size or not _is_plain_name(data, position + 2, length):
            return None
        request.transactional_id = bytes(data[position + 2 : position + 2 + length])
        position += length
    if data[position + 8] != 2:
        return None
    request.acks = int16_at(data, position + 2)
    request.timeout_ms = int32_at(data, position + 4)
    position = _flexible_topic(data, position + 9, size, request)
    if position == 0:
        return None
    if data[position] != 2:
        return None
    request.index = int32_at(data, position + 1)
    position += 5
    length = 0
    shift = 0
    while True:
        if position >= size or shift > 28:
            return None
        length |= (data[position] & 0x7F) << shift
        position += 1
        if data[position - 1] < 0x80:
            break
        shift += 7
    request.start = position
    request.end = position + length - 1
    # No tags behind the partition, the topic and the request, and nothing else.
    if request.end + 3 != size or data[size - 3] != 0 or data[size - 2] != 0 or data[size - 1] != 0:
        return None
    return request if _is_usual(data, request) else None


def _flexible_topic(data: Buffer, position: int, size: int, request: FastProduce) -> int:
    """Note the topic; returns where its partitions are, and 0 where its name is unusual."""
    length = TOPIC_ID_SIZE
    if request.version < TOPIC_IDS_FROM:
        length = data[position] - 1
        position += 1
        if not 1 <= length <= 126 or position + length > size or not _is_plain_name(data, position, length):
            return 0
    if position + length + 10 > size:
        return 0
    request.topic = bytes(data[position : position + length])
    return position + length


def _is_plain_name(data: Buffer, position: int, length: int) -> bool:
    for at in range(position, position + length):  # noqa: SIM110 - a generator is not compiled to a loop
        if data[at] >= 0x80:
            return False
    return True


def _is_usual(data: Buffer, request: FastProduce) -> bool:
    """Whether a client may send the batch in this version, and it is of the request's transaction or of none."""
    if request.end - request.start < SMALLEST_BATCH or not -1 <= request.acks <= 1 or request.index < 0:
        return False
    attributes = data[request.start + ATTRIBUTES_AT]
    if (attributes & CONTROL) != 0 or ((attributes & CODECS) == ZSTD and request.version < ZSTD_FROM):
        return False
    if ((attributes & TRANSACTIONAL) != 0) != (request.transactional_id is not None):
        return False
    request.header = _header(data, request.start, request.end)
    return True


def _header(data: Buffer, at: int, end: int) -> FastHeader | None:
    """Note what the log needs to know of a batch, so that its header is parsed only once."""
    if data[at + MAGIC_AT] != 2 or int32_at(data, at + LENGTH_AT) != end - at - BYTES_BEFORE_LENGTH:
        return None
    attributes = data[at + ATTRIBUTES_AT]
    if (attributes & CODECS) > LAST_CODEC or (attributes & (LOG_APPEND_TIME | CONTROL)) != 0:
        return None
    count = int32_at(data, at + COUNT_AT)
    if count < 1 or int32_at(data, at + LAST_DELTA_AT) != count - 1:
        return None
    header = FastHeader.__new__(FastHeader)
    header.producer_id = int64_at(data, at + PRODUCER_ID_AT)
    header.producer_epoch = int16_at(data, at + PRODUCER_EPOCH_AT)
    header.base_sequence = int32_at(data, at + BASE_SEQUENCE_AT)
    header.is_transactional = (attributes & TRANSACTIONAL) != 0
    if header.producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            return None
    elif header.is_transactional:
        return None
    header.record_count = count
    header.last_offset_delta = count - 1
    header.crc = uint32_at(data, at + CRC_AT)
    header.max_timestamp = int64_at(data, at + MAX_TIMESTAMP_AT)
    return header


def write_fast_produce(request: FastProduce, base_offset: int, append_time_ms: int, log_start_offset: int) -> bytes:
    """The answer to an appended batch, size and header included."""
    size = _answer_size(request)
    if COMPILED:
        answer = new_bytes(size)  # type: ignore[name-defined]  # noqa: F821
        _answer(bytes_start(answer), size, request, base_offset, append_time_ms, log_start_offset)  # type: ignore[name-defined]  # noqa: F821
        return answer  # type: ignore[no-any-return]
    target = bytearray(size)
    _answer(target, size, request, base_offset, append_time_ms, log_start_offset)
    return bytes(target)


def _answer_size(request: FastProduce) -> int:
    size = len(request.topic)
    if request.version >= TOPIC_IDS_FROM:
        return size + TOPIC_ID_ANSWER
    if request.version >= FLEXIBLE_FROM:
        return size + FLEXIBLE_ANSWER
    if request.version >= ERRORS_FROM:
        return size + ERRORS_ANSWER
    return size + (START_ANSWER if request.version >= START_FROM else FIRST_ANSWER)


def _answer(
    target: bytearray,
    size: int,
    request: FastProduce,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int,
) -> None:
    """Fill `target`, which has the size of the answer."""
    version = request.version
    is_flexible = version >= FLEXIBLE_FROM
    topic = request.topic
    length = len(topic)
    put(target, 0, size - 4, 4)
    put(target, 4, request.correlation_id, 4)
    if is_flexible:
        put(target, 8, 0, 1)
        put(target, 9, 2, 1)
        at = 10 if version >= TOPIC_IDS_FROM else put(target, 10, length + 1, 1)
    else:
        put(target, 8, 1, 4)
        at = put(target, 12, length, 2)
    for place in range(length):
        target[at + place] = topic[place]
    at = put(target, at + length, 2, 1) if is_flexible else put(target, at + length, 1, 4)
    at = put(target, at, request.index, 4)
    at = put(target, at, 0, 2)
    at = put(target, at, base_offset, 8)
    at = put(target, at, append_time_ms, 8)
    if version >= START_FROM:
        at = put(target, at, log_start_offset, 8)
    if is_flexible:
        at = put(target, at, 1, 1)  # No errors of records, no message, no tags.
        at = put(target, at, 0, 3)
    elif version >= ERRORS_FROM:
        at = put(target, at, 0, 4)
        at = put(target, at, -1, 2)
    at = put(target, at, 0, 4)
    if is_flexible:
        at = put(target, at, 0, 1)
    if at != size:
        raise AssertionError("an answer differs from its size")


def put(target: bytearray, at: int, value: int, width: int) -> int:
    """Write a number of `width` bytes; where the next one begins."""
    end = at + width
    place = end - 1
    while place >= at:
        target[place] = value & 0xFF
        value >>= 8
        place -= 1
    return end
