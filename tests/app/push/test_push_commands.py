"""`qanat push`: subscribe, produce and list, as a user runs them."""

from __future__ import annotations

import json

import pytest
from tests.app.processes import qanat

from qanat.client import PushConsumer
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker


def test_lines_that_are_produced_are_printed_by_a_subscriber() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        where = ("-b", broker.bootstrap_servers)
        written = qanat("push", "produce", "prices", "-k", "=", *where, given="AAPL=1\nGOOGL=2\n")
        assert written.returncode == 0, written.stderr

        form = ("-f", "%k:%v;")
        for options in ((), ("--group", "till")):
            printed = qanat("push", "subscribe", "prices", "-n", "2", *form, *options, *where)
            assert printed.stdout == "AAPL:1;GOOGL:2;", printed.stderr


def test_connected_consumers_are_listed() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        where = ("-b", broker.bootstrap_servers)
        qanat("push", "produce", "prices", *where, given="1\n2\n")
        servers = broker.bootstrap_servers
        with PushConsumer(servers, "prices", group_id="till", client_id="till-7", credit_records=1) as consumer:
            consumer.next(30)
            listed = qanat("push", "list", "-o", "json", *where)

        (row,) = json.loads(listed.stdout)
        assert (row["client"], row["group"], row["mode"], row["topics"]) == ("till-7", "till", "log", "prices")
        assert (row["unacknowledged"], row["credit"]) == (1, 1)


def test_a_mode_that_needs_a_group_says_so() -> None:
    refused = qanat("push", "subscribe", "prices", "--mode", "queue", "-b", "127.0.0.1:1")

    assert refused.returncode != 0
    assert "--group" in refused.stderr


def test_a_credit_of_no_records_is_refused() -> None:
    refused = qanat("push", "subscribe", "prices", "--credit", "0", "-b", "127.0.0.1:1")

    assert refused.returncode != 0
    assert "--credit 0" in refused.stderr
    with pytest.raises(InvalidSettingError, match="credit"):
        PushConsumer("127.0.0.1:1", "prices", credit_records=0)


def test_a_group_gets_a_topic_again_and_the_command_shows_how_far_it_is() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices", partitions=1)
        where = ("-b", broker.bootstrap_servers)
        qanat("push", "produce", "prices", *where, given="1\n2\n")
        assert qanat("push", "subscribe", "prices", "--group", "till", "-n", "2", *where).stdout == "1\n2\n"

        begun = qanat("push", "refresh", "till", "--topic", "prices", "--from", "+1", "-o", "json", *where)
        (row,) = json.loads(begun.stdout)
        assert (row["group"], row["topic"], row["state"], row["start"], row["end"]) == (
            "till",
            "prices",
            "waiting",
            1,
            2,
        )
        again = qanat("push", "refresh", "till", "--topic", "prices", *where)
        assert again.returncode != 0
        assert "is under way; cancel it first" in again.stderr

        printed = qanat("push", "subscribe", "prices", "--group", "till", "-n", "1", *where)
        assert printed.stdout == "2\n"
        assert f"RESET {row['refresh']}: prices 0, offsets 1 to 2" in printed.stderr
        (shown,) = json.loads(qanat("push", "refresh", "till", "-o", "json", *where).stdout)
        assert shown["state"] in ("resetting", "replaying", "readying"), "READY was not acknowledged"
        (ended,) = json.loads(qanat("push", "refresh", "till", "-t", "prices", "--cancel", "-o", "json", *where).stdout)
        assert ended["state"] == "cancelled"


def test_a_refresh_needs_a_group_and_cancelling_a_topic() -> None:
    assert "name a group" in qanat("push", "refresh", "--topic", "prices").stderr
    assert "--cancel needs --topic" in qanat("push", "refresh", "till", "--cancel").stderr
