"""Values are JSON that a person can read and that brokers of two versions can share."""

from __future__ import annotations

import json

import pytest

from qanat.cluster import values

EXAMPLES = [
    values.ClusterInfo(cluster_id="abc"),
    values.Controller(node_id=1),
    values.Topic(name="a", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=((1, 2), (2, 1)), is_internal=True),
    values.TopicReference(name="a"),
    values.TopicConfig(overrides={"retention.ms": "1000"}),
    values.BrokerConfig(overrides={}),
    values.BrokerRegistration(
        node_id=1,
        epoch=7,
        incarnation="x",
        listeners=(values.Listener(name="PLAINTEXT", host="localhost", port=9092),),
        rack="r",
    ),
    values.ProducerIdBlock(next=2**62),
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_a_value_is_read_as_it_was_written_and_says_its_version(value: values.Topic) -> None:
    data = values.encode(value)

    assert values.decode(type(value), data) == value
    assert json.loads(data)["version"] == 1


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_fields_of_a_later_version_are_ignored(value: values.Topic) -> None:
    later = json.loads(values.encode(value)) | {"version": 2, "something_new": [1, {}]}

    decoded = values.decode(type(value), json.dumps(later).encode())

    assert json.loads(values.encode(decoded)) == json.loads(values.encode(value)) | {"version": 2}


def test_a_topic_reads_well_in_the_database() -> None:
    topic = values.Topic(name="a", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=((1, 2), (2, 1)))

    assert values.encode(topic) == (
        b'{"version":1,"name":"a","topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":[[1,2],[2,1]],"is_internal":false,"grown":[]}'
    )
    assert str(topic.identity) == topic.topic_id


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"name":1,"topic_id":"x","partitions":[]}'])
def test_what_is_no_value_is_a_fault_with_a_name(data: bytes) -> None:
    with pytest.raises(values.UnreadableValueError, match="a Topic that cannot be read"):
        values.decode(values.Topic, data)
