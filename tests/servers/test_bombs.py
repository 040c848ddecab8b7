"""Small batches and bodies that inflate to very much, on Kafka's and HTTP's door: bounded memory, others are served."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator

import pytest
from tests.servers.kafka.raw import RawClient
from tests.servers.victim import TIMEOUT_S, Victim

from qanat.model.error_codes import ErrorCode
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

MIB = 1024 * 1024
CODECS = [codec for codec in Codec if codec is not Codec.NONE]
INFLATED_BYTES = 4 * MIB
"""Of one batch; of snappy, which compresses least, it is still below what a topic takes."""
COUNT = 50
GROWTH_BYTES = 100 * MIB
"""Half of what the batches of one topic inflate to."""
LIMIT_BYTES = 8 * MIB


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    limits = ("http.port=0", f"http.inflated.max.bytes={LIMIT_BYTES}", f"log.decompressed.bytes.max={LIMIT_BYTES}")
    started = Victim(tmp_path_factory.mktemp("victim"), *limits)
    yield started
    started.close()


@pytest.fixture(autouse=True)
def _unharmed(victim: Victim) -> Iterator[None]:
    before = victim.rss_bytes
    with victim.watched():
        yield
    assert victim.bugs() == []
    assert victim.rss_bytes - before < GROWTH_BYTES


def bomb(codec: Codec, inflated_bytes: int = INFLATED_BYTES) -> bytes:
    return bytes(encode_batch([Record(0, 1, b"key", b"x" * inflated_bytes)], codec=codec))


def create(client: RawClient, topic: str, **configs: str) -> None:
    rows = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(topic, 1, 1, configs=rows)], timeout_ms=10_000)
    assert client.ask(ApiKey.CREATE_TOPICS, 5, request).topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)


def produce(client: RawClient, topic: str, batch: bytes) -> int:
    """The error of a batch."""
    rows = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch))])]
    answer = client.ask(ApiKey.PRODUCE, 8, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=rows))
    return int(answer.responses[0].partition_responses[0].error_code)


def written(victim: Victim, codec: Codec) -> str:
    """A topic with many bombs."""
    topic, data = f"bombs-{codec.name.lower()}", bomb(codec)
    with RawClient(f"127.0.0.1:{victim.port}") as client:
        create(client, topic)
        assert [produce(client, topic, data) for _ in range(COUNT)] == [0] * COUNT
    return topic


def refusal(request: urllib.request.Request) -> tuple[int, bytes]:
    """Status and body of an answer that is an error."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=TIMEOUT_S)
    with refused.value as answer:
        return answer.code, answer.read()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("config", [{"cleanup_policy": "compact"}, {"compression_type": "uncompressed"}])
def test_a_topic_that_opens_its_batches_refuses_one_beyond_the_limit(
    victim: Victim, codec: Codec, config: dict[str, str]
) -> None:
    topic = f"opened-{codec.name.lower()}-{next(iter(config)).partition('_')[0]}"
    with RawClient(f"127.0.0.1:{victim.port}") as client:
        create(client, topic, max_message_bytes=str(64 * MIB), **config)
        found = [produce(client, topic, bomb(codec, 4 * LIMIT_BYTES)) for _ in range(5)]
        assert produce(client, topic, bomb(codec, 1000)) == 0

    assert found == [ErrorCode.MESSAGE_TOO_LARGE] * 5


@pytest.mark.parametrize("codec", CODECS)
def test_a_reader_over_http_gets_bombs_one_after_the_other(victim: Victim, codec: Codec) -> None:
    topic = written(victim, codec)
    url = f"{victim.http}/consume?topic={topic}&partition=0&count=500&offset=0"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        document = json.loads(answer.read())

    assert len(document["messages"]) == document["next_offset"] == 1, "as many as http.answer.max.bytes allows"


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_nobody_reads_holds_few_bombs(victim: Victim, codec: Codec) -> None:
    topic = written(victim, codec)
    host, _, port = victim.http.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as client:
        client.sendall(f"GET /api/v1/topics/{topic}/stream?from=earliest HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while b"xxxx" not in received:
            received += client.recv(65536)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_beyond_the_limit_is_a_problem_for_readers_over_http(victim: Victim, codec: Codec) -> None:
    topic = f"beyond-{codec.name.lower()}"
    with RawClient(f"127.0.0.1:{victim.port}") as client:
        create(client, topic, max_message_bytes=str(64 * MIB))
        assert produce(client, topic, bomb(codec, 4 * LIMIT_BYTES)) == 0
    code, answer = refusal(urllib.request.Request(f"{victim.http}/consume?topic={topic}&partition=0&offset=0"))

    assert code == 413
    assert b"inflate to more than" in answer


def gzipped_zeros(mib: int) -> bytes:
    """In pieces: while Python makes one large piece, the other client here waits for the interpreter's lock."""
    packer, piece = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(MIB)
    return b"".join(packer.compress(piece) for _ in range(mib)) + packer.flush()


def test_a_body_over_http_that_inflates_too_far_is_refused(victim: Victim) -> None:
    body = gzipped_zeros(512)
    assert len(body) < MIB
    request = urllib.request.Request(f"{victim.http}/produce", body, {"Content-Encoding": "gzip"})
    request.add_header("Content-Type", "application/json")
    assert refusal(request)[0] == 413
