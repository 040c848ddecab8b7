"""Latencies: precise enough, merged without loss, and counted from the intended time."""

from __future__ import annotations

import threading

import pytest

from qanat.app.bench.clients.latencies import LONGEST_US, Latencies
from qanat.app.bench.clients.options import Load
from qanat.app.bench.clients.producing_client import Payloads, ProducingClient
from qanat.app.bench.clients.worker_messages import Amount, ProduceTask
from qanat.app.client.arguments import WrongArgumentError
from qanat.testing import EmbeddedBroker


def test_percentiles_are_right_to_three_digits_and_the_largest_exactly() -> None:
    counted = Latencies()
    for value in range(1, 100_001):
        counted.record(value)

    assert counted.count == 100_000
    assert counted.at(50) == pytest.approx(50.0, rel=0.002)
    assert counted.at(99.9) == pytest.approx(99.9, rel=0.002)
    assert counted.summary()["max"] == 100.0
    assert counted.curve()[-1][0] < 100


def test_those_of_several_clients_are_joined() -> None:
    joined = Latencies()
    for values in ([1000, 2000], [3000, 2 * LONGEST_US], []):
        one = Latencies()
        for value in values:
            one.record(value)
        joined.add(one.encoded(), one.largest_us)

    assert (joined.count, joined.largest_us) == (4, LONGEST_US)
    assert Latencies().summary() == {}


def test_a_stall_is_charged_to_every_record_that_should_have_been_sent_meanwhile() -> None:
    """100 records a second, and a broker that answers nothing for half a second: some fifty records are late."""
    with EmbeddedBroker() as broker:
        broker.create_topic("t")
        task = ProduceTask(
            "t",
            {"bootstrap.servers": broker.bootstrap_servers, "max.in.flight": "1", "linger.ms": "0", "log_level": "0"},
            100,
            Amount(records=100),
            Amount(records=10),
            rate=100.0,
        )
        client = ProducingClient(task, threading.Event())
        client.prepare()
        broker.delay("Produce", seconds=0.5, times=1)
        outcome = client.run()
    found = Latencies()
    found.add(outcome.latencies, outcome.largest_us)

    assert (outcome.records, outcome.errors) == (100, {})
    # Record n of those that waited was late by 0.5 s - n * 10 ms; a tool that waits for answers would show one.
    late = sum(1 for share in range(100) if found.at(share + 0.5) > 100)
    assert late >= 30


def test_payloads_are_of_their_size_and_differ() -> None:
    pool = Payloads(100)
    some = {pool.of(number) for number in range(1000)}

    assert {len(one) for one in some} == {100}
    assert len(some) == 1000
    assert Payloads(0).of(7) == b""


@pytest.mark.parametrize(
    ("text", "amount"), [("0", Amount(records=0)), ("12", Amount(records=12)), ("2.5s", Amount(seconds=2.5))]
)
def test_warming_up_is_said_in_records_or_seconds(text: str, amount: Amount) -> None:
    assert Load(warmup=text).warmup_amount() == amount


@pytest.mark.parametrize("text", ["-1", "s", "nans", "1e5", "5m", ""])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(WrongArgumentError, match="--warmup"):
        Load(warmup=text).warmup_amount()


def test_records_are_divided_and_seconds_are_not() -> None:
    assert [one.records for one in Amount(records=10).shared(3)] == [4, 3, 3]
    assert Amount(seconds=2.0).shared(2) == [Amount(seconds=2.0)] * 2
