"""The page of the protocol is enough to write a client: `stranger`, which is one, talks to a broker."""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.servers.push import stranger
from tests.servers.push.stranger import RESET, DisconnectedError, Frame, Record, Stranger

from qanat.testing import EmbeddedBroker

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocols" / "push.md"
LINES_MAX = 200


@contextmanager
def talking(broker: EmbeddedBroker, user: str = "") -> Iterator[Stranger]:
    client = Stranger(broker.bootstrap_servers)
    try:
        if user:
            client.log_in(user, "alice-secret")
        yield client
        client.close()
    finally:
        client.socket.close()


def taken(client: Stranger) -> Record:
    found = client.next()
    assert isinstance(found, Record)
    return found


def test_a_stranger_needs_nothing_of_ours_and_few_lines() -> None:
    text = Path(stranger.__file__).read_text()
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {one.module if isinstance(one, ast.ImportFrom) else one.names[0].name for one in imports}

    assert names <= sys.stdlib_module_names
    assert len(text.splitlines()) <= LINES_MAX


def test_the_client_in_twenty_lines_on_the_page_prints_records(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with EmbeddedBroker() as broker:
        broker.create_topic("price-topic")
        with talking(broker) as producer:
            producer.produce_to(["price-topic"])
            producer.answer_of(producer.write("price-topic", b"182.30", b"AAPL"))
        host, _, port = broker.bootstrap_servers.rpartition(":")
        here = program.replace('("localhost", 9092)', repr((host, int(port))))
        here = here.replace("while True:", "for _ in range(2):")  # The answer, and one record.
        assert here != program
        exec(compile(here + "stream.close()\nbroker.close()\n", "push.md", "exec"), {})

    assert "'key': 'AAPL', 'value': '182.30'" in capsys.readouterr().out


def test_a_stranger_produces_and_consumes_in_a_group() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices", partitions=2)
        with talking(broker) as producer:
            assert producer.produce_to(["prices"])["partitions"] == {"prices": 2}
            sent = [producer.write("prices", b"%d" % number, b"AAPL") for number in range(3)]
            places = [producer.answer_of(one) for one in sent]
            assert [one["offset"] for one in places] == [0, 1, 2]
            assert not producer.answer_of(producer.write("prices", None, b"AAPL")).get("error")
            partition = places[0]["partition"]
            assert producer.answer_of(producer.write("prices", b"x", partition=9))["error"]
        with talking(broker) as consumer:
            assert consumer.subscribe(["prices"], group="g")["mode"] == "log"
            records = [taken(consumer) for _ in range(4)]
            assert [one.value for one in records] == [b"0", b"1", b"2", None]
            assert {(one.topic, one.partition, one.key) for one in records} == {("prices", partition, b"AAPL")}
            assert abs(records[0].timestamp / 1000 - time.time()) < 60
            consumer.acknowledge(records[1].frame_id)
            assert "error" not in consumer.commit(records[2])
        with talking(broker) as again:
            again.subscribe(["prices"], group="g")
            assert taken(again).offset == 3


def test_a_stranger_works_on_a_queue_and_gives_a_record_back() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("jobs")
        with talking(broker) as worker, talking(broker) as producer:
            assert worker.subscribe(["jobs"], group="workers", mode="queue")["mode"] == "queue"
            producer.produce_to(["jobs"])
            found: list[Record] = []
            worker.socket.settimeout(0.5)
            while not found:  # A queue begins with the records after its first member.
                producer.answer_of(producer.write("jobs", b"job"))
                try:
                    found.append(taken(worker))
                except TimeoutError:
                    worker.stream = worker.socket.makefile("rb")
            worker.socket.settimeout(60)
            worker.acknowledge(found[0].frame_id, verdict="release")
            while (again := taken(worker)).offset != found[0].offset:
                worker.acknowledge(again.frame_id)
            worker.acknowledge(again.frame_id, verdict="accept")


def test_a_stranger_repeats_what_was_not_answered_and_it_is_written_once() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        with talking(broker) as producer:
            identity = producer.produce_to(["prices"], producer={})["producer"]
            for sequence in range(2):
                producer.answer_of(producer.write("prices", b"v", partition=0, sequence=sequence))
        with talking(broker) as again:
            again.produce_to(["prices"], producer=identity)
            answers = [again.answer_of(again.write("prices", b"v", partition=0, sequence=number)) for number in (1, 2)]

        assert [one["offset"] for one in answers] == [1, 2]
        assert len(broker.records("prices")) == 3


def test_a_stranger_resumes_and_is_told_that_its_position_is_void() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        with talking(broker) as producer:
            producer.produce_to(["prices"])
            producer.answer_of(producer.write("prices", b"v"))
        with talking(broker) as consumer:
            consumer.subscribe(["prices"], positions=[{"topic": "prices", "partition": 0, "offset": 77, "epoch": 0}])
            reset = consumer.next()
            assert isinstance(reset, Frame)
            assert reset.kind == RESET
            assert reset.json["topic"] == "prices"
            offset = reset.json["offset"]
            consumer.acknowledge(reset.id)
        with talking(broker) as producer:
            producer.produce_to(["prices"])
            producer.answer_of(producer.write("prices", b"w"))
        with talking(broker) as consumer:
            consumer.subscribe(["prices"], positions=[{"topic": "prices", "partition": 0, "offset": offset}])
            assert taken(consumer).offset == offset


def test_a_stranger_authenticates_and_learns_what_it_may_not_do() -> None:
    with EmbeddedBroker(users={"alice": "alice-secret"}, settings={"super.users": "User:admin"}) as broker:
        broker.create_topic("prices")
        broker.create_topic("secrets")
        broker.allow("alice", "read", topic="prices")
        with talking(broker, "alice") as reader:
            assert reader.subscribe(["prices"])["partitions"] == {"prices": 1}
        with talking(broker, "alice") as curious, pytest.raises(DisconnectedError, match="not-authorized"):
            curious.subscribe(["secrets"])
        with talking(broker) as stranger_to_all, pytest.raises(DisconnectedError, match="not-authenticated"):
            stranger_to_all.subscribe(["prices"])
