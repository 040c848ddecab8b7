"""`qanat consume --group`: real members of real groups, as processes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.app.consumers import described, owned_partitions, running_consumer, wait_until
from tests.app.processes import qanat


def committed(address: str, group: str) -> int:
    return sum(row["committed"] or 0 for row in described(address, group))


def produce(address: str, topic: str, numbers: range, *, partitions: int) -> None:
    qanat("topic", "create", topic, "-p", str(partitions), "--if-not-exists", "-b", address)
    lines = "".join(f"{number}:{number}\n" for number in numbers)
    assert qanat("produce", topic, "-k", ":", "-b", address, given=lines).returncode == 0


def test_a_consumer_is_a_member_while_it_runs_and_leaves_when_it_ends(broker_address: str, tmp_path: Path) -> None:
    produce(broker_address, "cg-member", range(10), partitions=2)
    with running_consumer(tmp_path, "cg-member", "--group", "cg-1", "-b", broker_address) as consumer:
        wait_until(lambda: len(consumer.lines()) == 10, "ten records")
        wait_until(lambda: committed(broker_address, "cg-1") == 10, "what was printed is committed")
        described = qanat("group", "describe", "cg-1", "-b", broker_address).stdout
        reset = qanat("group", "reset", "cg-1", "--all-topics", "--to-earliest", "--yes", "-b", broker_address)
        code, complaints = consumer.stop(signal.SIGTERM)

    assert described.startswith("cg-1: Stable, 1 member, assignor range\n")
    assert reset.stderr == "qanat: group cg-1 has members (1): stop its consumers first\n"
    assert (code, complaints) == (143, "")
    # It has left: the group does not wait for its session to end.
    assert qanat("group", "describe", "cg-1", "-b", broker_address).stdout.startswith("cg-1: Empty, 0 members")


def test_two_consumers_share_a_topic_and_the_last_one_gets_all_of_it(broker_address: str, tmp_path: Path) -> None:
    produce(broker_address, "cg-shared", range(20), partitions=4)
    arguments = ("cg-shared", "--group", "cg-2", "-b", broker_address)
    with running_consumer(tmp_path, *arguments) as first, running_consumer(tmp_path, *arguments) as second:
        wait_until(
            lambda: [len(parts) for parts in owned_partitions(broker_address, "cg-2").values()] == [2, 2],
            "two partitions each",
        )
        produce(broker_address, "cg-shared", range(20, 60), partitions=4)
        wait_until(lambda: len(first.lines()) + len(second.lines()) >= 60, "sixty records")
        assert first.stop(signal.SIGINT) == (130, "")
        wait_until(
            lambda: [len(parts) for parts in owned_partitions(broker_address, "cg-2").values()] == [4],
            "four partitions for the one that is left",
        )
        produce(broker_address, "cg-shared", range(60, 80), partitions=4)
        wait_until(lambda: len(first.lines()) + len(second.lines()) >= 80, "eighty records")
        wait_until(lambda: committed(broker_address, "cg-2") == 80, "all of it committed")
        assert second.stop() == (143, "")

        assert sorted(map(int, first.lines() + second.lines())) == list(range(80))
        assert min(len(first.lines()), len(second.lines())) > 0


def test_a_group_is_shared_with_another_client(broker_address: str, tmp_path: Path) -> None:
    produce(broker_address, "cg-foreign", range(4), partitions=2)
    other = Consumer({"bootstrap.servers": broker_address, "group.id": "cg-3", "auto.offset.reset": "earliest"})
    other.subscribe(["cg-foreign"])
    try:
        with running_consumer(tmp_path, "cg-foreign", "--group", "cg-3", "-b", broker_address) as consumer:

            def are_both_in() -> bool:
                other.poll(0.1)
                return [len(parts) for parts in owned_partitions(broker_address, "cg-3").values()] == [1, 1]

            wait_until(are_both_in, "one partition each")
            assert consumer.stop() == (143, "")
    finally:
        other.close()


def test_without_commit_a_group_stays_where_it_stands(broker_address: str) -> None:
    produce(broker_address, "cg-look", range(3), partitions=1)
    target = ("-b", broker_address)
    looked = qanat("consume", "cg-look", "--group", "cg-4", "--no-commit", "-e", *target).stdout.split()
    taken = qanat("consume", "cg-look", "--group", "cg-4", "-n", "2", *target).stdout.split()
    rest = qanat("consume", "cg-look", "--group", "cg-4", "-e", "--from", "start", *target).stdout.split()

    assert (looked, taken, rest) == (["0", "1", "2"], ["0", "1"], ["2"])


@pytest.mark.long
def test_one_member_too_many_waits_for_its_turn(broker_address: str, tmp_path: Path) -> None:
    produce(broker_address, "cg-spare", range(1), partitions=1)
    arguments = ("cg-spare", "--group", "cg-5", "-b", broker_address)
    with running_consumer(tmp_path, *arguments) as first, running_consumer(tmp_path, *arguments) as second:
        wait_until(
            lambda: "2 members" in qanat("group", "describe", "cg-5", "-b", broker_address).stdout, "two members"
        )
        wait_until(lambda: len(first.lines()) + len(second.lines()) == 1, "the record")
        reader, spare = (first, second) if first.lines() else (second, first)
        reader.stop()
        produce(broker_address, "cg-spare", range(1, 3), partitions=1)
        wait_until(lambda: spare.lines() == ["1", "2"], "the other one takes over")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("-g", "g", "-p", "0"),
            "with --group the group decides which partitions we read, and where: no -p, no --tail",
        ),
        (("-g", "g", "--tail", "3"), "with --group the group decides "),
        (("--no-commit",), "--commit and --no-commit are for --group"),
        (("-g", ""), "--group needs a name"),
    ],
)
def test_flags_that_contradict_a_group_are_refused(arguments: tuple[str, ...], message: str) -> None:
    result = qanat("consume", "t", *arguments)

    assert (result.returncode, result.stderr[: len(message) + 7]) == (1, f"qanat: {message}")
