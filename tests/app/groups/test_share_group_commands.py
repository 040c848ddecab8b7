"""`qanat group` on share groups, as processes against a real broker."""

from __future__ import annotations

import json
import time

from confluent_kafka import ShareConsumer
from tests.app.conftest import Run

SECONDS = 60


def rows_of(run: Run, group: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(run("group", "describe", group, "-o", "json").stdout)
    return [row for row in rows if row["scope"] == "partition"]


def work(bootstrap: str, group: str, topic: str, count: int) -> ShareConsumer:
    """Accept so many records, and stay."""
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    deadline, got = time.monotonic() + SECONDS, 0
    while got < count:
        assert time.monotonic() < deadline, f"got {got} of {count}"
        got += sum(one.error() is None for one in consumer.poll(0.2))
        consumer.commit_sync(SECONDS)
    return consumer


def test_a_share_group_is_listed_described_reset_and_deleted(run: Run, broker_address: str) -> None:
    run("topic", "create", "s-work", "-p", "1")
    run("produce", "s-work", given="1\n2\n3\n4\n5\n")
    assert run("config", "set", "group", "s-crew", "share.auto.offset.reset=earliest").returncode == 0
    consumer = work(broker_address, "s-crew", "s-work", 5)
    listed = json.loads(run("group", "list", "--type", "share", "-o", "json").stdout)
    described = run("group", "describe", "s-crew")
    (row,) = rows_of(run, "s-crew")
    refused = run("group", "reset", "s-crew", "--topic", "s-work", "--to-earliest", "--yes")

    assert [(one["group"], one["state"], one["type"]) for one in listed] == [("s-crew", "Stable", "share")]
    assert described.stdout.startswith("s-crew: Stable, 1 member, assignor simple, type share, epoch 1")
    assert (row["committed"], row["end"], row["lag"], row["type"]) == (5, 5, 0, "share")
    assert row["member"] is not None
    assert refused.returncode != 0
    assert "has members (1): stop its consumers first" in refused.stderr

    consumer.close()
    moved = run("group", "reset", "s-crew", "--all-topics", "--to-offset", "2", "--yes")
    assert moved.returncode == 0, moved.stderr
    (row,) = rows_of(run, "s-crew")
    assert (row["committed"], row["lag"], row["member"]) == (2, 3, None)
    work(broker_address, "s-crew", "s-work", 3).close()
    (row,) = rows_of(run, "s-crew")
    assert (row["committed"], row["lag"]) == (5, 0)

    assert run("group", "delete", "s-crew", "--yes").returncode == 0
    assert run("group", "list", "--type", "share", "-o", "names").stdout == ""
    gone = run("group", "describe", "s-crew")
    assert (gone.returncode, "there is no group s-crew" in gone.stderr) == (1, True)


def test_settings_of_a_group_are_shown_and_wrong_ones_refused(run: Run) -> None:
    run("config", "set", "group", "s-conf", "share.record.lock.duration.ms=20000")
    shown = json.loads(run("config", "get", "group", "s-conf", "-o", "json").stdout)
    wrong = run("config", "set", "group", "s-conf", "share.record.lock.duration.ms=5")

    values = {row["setting"]: row["value"] for row in shown}
    assert (values["share.record.lock.duration.ms"], values["share.auto.offset.reset"]) == ("20000", "latest")
    assert wrong.returncode != 0
    assert "share.record.lock.duration.ms must be greater than or equal to" in wrong.stderr
