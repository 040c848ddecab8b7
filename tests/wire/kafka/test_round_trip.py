"""Every message in every version is written and read as kio writes and reads it, byte for byte."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest
from tests.wire.kafka.kio_judge import agree, is_known, kio_class, our_class, random_message, reads, writes

from qanat.wire.kafka.messages import get_replica_log_info as info
from qanat.wire.kafka.registry import APIS, Api

ROUNDS = 12
JUDGED = [api for api in APIS.values() if is_known(api.key)]


def whole(chunks: list[bytes | memoryview]) -> bytes:
    return b"".join(chunks)


def codec_of(api: Api) -> ModuleType:
    codec = api.codec
    assert isinstance(codec, ModuleType)
    return codec


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(api: Api, direction: str) -> None:
    codec = codec_of(api)
    read, write = getattr(codec, f"read_{direction}"), getattr(codec, f"write_{direction}")
    for version in range(api.first_version, api.last_version + 1):
        entity = kio_class(api.key, version, direction)
        for seed in range(ROUNDS):
            message = random_message(Random(f"{api.name} {version} {seed}"), codec, entity, direction)
            data = whole(write(message, version))
            theirs = reads(entity, data)
            agree(message, theirs)
            assert writes(entity, theirs) == data
            assert whole(write(read(memoryview(data), version), version)) == data
            agree(read(memoryview(data), version), theirs)


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("api", JUDGED, ids=lambda api: api.name)
def test_a_message_of_defaults_can_be_written_in_every_version(api: Api, direction: str) -> None:
    codec = codec_of(api)
    message_class = our_class(codec, kio_class(api.key, api.last_version, direction), direction)
    read, write = getattr(codec, f"read_{direction}"), getattr(codec, f"write_{direction}")
    for version in range(api.first_version, api.last_version + 1):
        entity = kio_class(api.key, version, direction)
        try:
            data = whole(write(message_class(), version))
        except ValueError:
            continue  # a default of null in a version without null; what else would raise, the other test shows
        reads(entity, data)
        assert read(memoryview(data), version) == message_class()


def test_what_a_broker_proves_of_its_logs_is_read_as_it_was_written() -> None:
    """kio has no schema of it."""
    rows = [
        info.PartitionLogInfo(3, 7, 8, 2**40, 0, None, 12, [info.DamagedRange(4, 9), info.DamagedRange(11, 12)]),
        info.PartitionLogInfo(4, -1, 8, -1, 56, "its folder is gone", is_compacted=True),
    ]
    told = [info.TopicPartitionLogInfo(bytes(range(16)), rows)]
    waiting = [info.WaitingElection(bytes(16), 2, [0, 1], [3], 12_000), info.WaitingElection(bytes(16), 3, [], [], -1)]
    response = info.GetReplicaLogInfoResponse(99, False, told, "dir", waiting)
    request = info.GetReplicaLogInfoRequest(1, [info.TopicPartitions(bytes(range(16)), [0, 1, 5])], True)

    assert info.read_response(memoryview(whole(info.write_response(response, 0))), 0) == response
    assert info.read_request(memoryview(whole(info.write_request(request, 0))), 0) == request
