"""kafka-python's schemas, read from Kafka's own files, are the second judge: bytes, and the names of fields."""

from __future__ import annotations

import warnings
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.wire.kafka.kio_judge import kio_class, random_message

from qanat.wire.kafka.registry import APIS, Api

ROOMS = ("admin", "consumer", "metadata", "producer", "sasl")
DIRECTIONS = ("request", "response")
# The versions of one message that are enough to see each of its fields.
ROUNDS = 3


def judged() -> list[tuple[Api, str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kafka-python opens its schemas in a way that Python is giving up
        rooms = [import_module(f"kafka.protocol.{room}") for room in ROOMS]
    found = []
    for api in APIS.values():
        for direction in DIRECTIONS:
            name = f"{api.name}{direction.title()}"
            found += [(api, direction, getattr(room, name)) for room in rooms if hasattr(room, name)]
    return found


JUDGED = judged()


@pytest.mark.parametrize(("api", "direction", "judge"), JUDGED, ids=[f"{api.name}-{side}" for api, side, _ in JUDGED])
def test_kafka_python_reads_the_same_message_and_writes_the_same_bytes(api: Api, direction: str, judge: Any) -> None:
    codec = api.codec
    assert isinstance(codec, ModuleType)
    write = getattr(codec, f"write_{direction}")
    for version in range(api.first_version, min(api.last_version, judge.max_version) + 1):
        entity = kio_class(api.key, version, direction)
        for seed in range(ROUNDS):
            message = random_message(Random(f"{api.name} {version} {seed}"), codec, entity, direction)
            if judge.__name__ == "ApiVersionsResponse":
                message.error_code = 0  # with 35 it is read as version 0 by everybody
            data = b"".join(write(message, version))
            theirs = judge.decode(data, version=version)
            agree(message, theirs, version)
            theirs._header = None
            assert bytes(theirs.encode(version=version)) == data


def test_most_messages_have_a_second_judge() -> None:
    assert len(JUDGED) > 80


def agree(ours: Any, theirs: Any, version: int) -> None:
    """Every field that the other side has, by its own name, is as ours."""
    for field, schema in theirs.fields.items():
        if not schema.for_version_q(version) or field.endswith("authorized_operations"):
            continue  # kafka-python makes sets of operations
        mine = getattr(ours, field)
        other = getattr(theirs, field)
        if mine is None or (other is None and isinstance(mine, msgspec.Struct) and mine == type(mine)()):
            continue  # what says nothing is not sent, and is None on one side and a struct of defaults on the other
        if isinstance(mine, list) and mine and isinstance(mine[0], msgspec.Struct):
            assert len(mine) == len(other)
            for left, right in zip(mine, other, strict=True):
                agree(left, right, version)
        elif isinstance(mine, msgspec.Struct):
            agree(mine, other, version)
        else:
            assert plain(other) == plain(mine) or (other, mine) == (None, bytes(16)), field


def plain(value: Any) -> Any:
    match value:
        case memoryview() | bytearray():
            return bytes(value)
        case tuple() | list():
            return [plain(item) for item in value]
    return getattr(value, "bytes", value)
