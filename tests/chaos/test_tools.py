"""The parts of the chaos tool that could make a run pass for nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_INVALID, Message
from verify.chaos.client import acknowledged_offset
from verify.chaos.disk import Condition, Disk, build_failing_disk
from verify.chaos.disk_damage import OldImage, flip_bit, is_repaired, remove_partition
from verify.chaos.journal import Journal, identity_of, value_of
from verify.chaos.judge import judge_partition, judge_transactions
from verify.chaos.network import HOST, Network, NetworkUnavailableError
from verify.chaos.plan import KINDS, plan_faults
from verify.chaos.replicas import await_same_copies
from verify.chaos.report import Findings, Sample
from verify.clusters.history import Outcome

from qanat.wire.records import Record, encode_batch


def test_a_seed_gives_one_plan_with_a_fair_share_of_every_kind() -> None:
    plan = list(plan_faults(7, 1800, 3, 5))

    assert plan == list(plan_faults(7, 1800, 3, 5))
    assert plan != list(plan_faults(8, 1800, 3, 5))
    assert len(plan) >= 300
    assert min(Counter(fault.kind for fault in plan).values()) >= 20
    assert {fault.kind for fault in plan} == set(KINDS)
    assert sorted(fault.at_s for fault in plan) == [fault.at_s for fault in plan]


def test_a_value_says_who_wrote_it() -> None:
    assert identity_of(value_of(3, 12345)) == (3, 12345)
    assert identity_of(b"something else") == (0, -1)
    assert identity_of(None) == (0, -1)


class Story:
    """Journals of one partition, written by hand: two records that were acknowledged and read by all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent = [(0, Outcome.DONE, 0), (1, Outcome.DONE, 1)]
        self.read = [(0, 1, 0), (1, 1, 1)]
        self.read_by_the_group = list(self.read)

    def problems(self) -> list[str]:
        writer, final, member = (Journal(self.folder, name) for name in ("librdkafka-1", "final-0", "member-a"))
        for number, outcome, offset in self.sent:
            writer.note_send("steady", 0, number, outcome, offset)
        final.note_poll("steady", 0, 0, self.read, is_final=True)
        member.note_poll("steady", 0, 0, self.read_by_the_group)
        for journal in (writer, final, member):
            journal.close()
        return [problem.split(": ")[1] for problem in judge_partition((self.folder, "steady", 0))]


def test_a_good_story_is_good(tmp_path: Path) -> None:
    assert Story(tmp_path).problems() == []


def test_a_record_that_was_acknowledged_and_is_gone_is_reported(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.read = story.read_by_the_group = [(1, 1, 1)]

    assert story.problems() == ["lost-write", "unread-by-group"]


def test_a_record_that_is_acknowledged_without_an_offset_may_be_anywhere(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.sent[1] = (1, Outcome.DONE, acknowledged_offset(Message(offset=OFFSET_INVALID)))

    assert story.problems() == []


def test_a_record_that_is_read_elsewhere_than_acknowledged_is_reported(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.sent[1] = (1, Outcome.DONE, acknowledged_offset(Message(offset=0)))

    assert "wrong-offset" in story.problems()


def test_a_record_that_is_there_twice_is_reported(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.read = [(0, 1, 0), (1, 1, 1), (2, 1, 0)]

    assert "duplicate" in story.problems()


def test_a_record_of_an_aborted_transaction_that_is_read_is_reported(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.sent[1] = (1, Outcome.FAILED, -1)

    assert story.problems() == ["G1a"]


def test_records_that_changed_places_are_reported(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.sent = [(0, Outcome.DONE, 1), (1, Outcome.DONE, 0)]

    assert {"wrong-offset", "nonmonotonic-send"} <= set(story.problems())


def test_a_record_that_the_group_passed_over_is_reported(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.read_by_the_group = [(0, 1, 0)]

    assert story.problems() == ["unread-by-group"]


def test_an_empty_story_shows_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.sent, story.read, story.read_by_the_group = [], [], []

    assert story.problems() == ["empty"]


def test_half_a_transaction_is_reported(tmp_path: Path) -> None:
    writer, final = Journal(tmp_path, "transactional-3"), Journal(tmp_path, "final-1")
    for partition in (0, 1):
        writer.note_send("ledger", partition, partition, Outcome.DONE, 0, transaction=5)
    final.note_poll("ledger", 0, 0, [(0, 3, 0)], is_final=True)
    final.note_poll("ledger", 1, 0, [], is_final=True)
    writer.close()
    final.close()

    (problem,) = judge_transactions((tmp_path, "ledger", 2))
    assert "1 of the 2 records" in problem


def test_copies_that_differ_are_reported(tmp_path: Path) -> None:
    folders = [tmp_path / f"broker-{number}" for number in range(3)]
    for number, folder in enumerate(folders):
        log = folder / "steady-0"
        log.mkdir(parents=True)
        batch = encode_batch([Record(0, 0, b"", b"x" if number < 2 else b"y")])
        (log / "00000000000000000000.log").write_bytes(batch)

    assert asyncio.run(await_same_copies(folders[:2], {"steady": 1}, 0)) == []
    assert len(asyncio.run(await_same_copies(folders, {"steady": 1}, 0))) == 1


def test_a_replica_that_loses_a_segment_while_it_is_compared_is_not_the_same(tmp_path: Path) -> None:
    folders = data_directories(tmp_path)
    removed = folders[2] / "steady-0" / "00000000000000000003.log"
    removed.symlink_to(tmp_path / "nowhere")

    (difference,) = asyncio.run(await_same_copies(folders, {"steady": 2}, 0))
    assert "steady-0" in difference
    assert f"cannot read {removed}" in difference


def data_directories(folder: Path) -> list[Path]:
    """Of three brokers with the same two partitions, of three batches each."""
    for number in range(3):
        for name in ("steady-0", "steady-1"):
            log = folder / "data" / f"broker-{number}" / name / "00000000000000000000.log"
            log.parent.mkdir(parents=True)
            log.write_bytes(b"".join(encode_batch([Record(at, 0, b"", b"x")]) for at in range(3)))
    return sorted((folder / "data").iterdir())


@pytest.mark.parametrize("seed", range(20))
def test_one_bit_is_flipped_and_known_to_be_until_the_batch_is_as_others_have_it(tmp_path: Path, seed: int) -> None:
    data, *peers = data_directories(tmp_path)
    before = (peers[0] / "steady-0" / "00000000000000000000.log").read_bytes()

    flip = flip_bit(data, Random(seed))

    contents = [path.read_bytes() for path in data.glob("*/*.log")]
    (damaged,) = [content for content in contents if content != before]
    assert (int.from_bytes(before) ^ int.from_bytes(damaged)).bit_count() == 1
    assert not is_repaired(flip, peers)
    flip.path.write_bytes(before)
    assert is_repaired(flip, peers)


def test_an_old_image_is_put_back_as_it_was(tmp_path: Path) -> None:
    data = data_directories(tmp_path)[0]
    log, image = data / "steady-0" / "00000000000000000000.log", OldImage(data)
    before = log.read_bytes()
    image.take()
    log.write_bytes(before + b"more")
    (data / "new").touch()

    image.put_back()

    assert log.read_bytes() == before
    assert sorted(path.name for path in data.iterdir()) == ["steady-0", "steady-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_one_folder_is_lost(tmp_path: Path) -> None:
    data = data_directories(tmp_path)[0]
    (data / "other").mkdir()

    remove_partition(data, Random(1))

    assert [path.name for path in data.iterdir() if path.name != "other"] in (["steady-0"], ["steady-1"])
    assert (data / "other").is_dir()


def test_the_rate_counts_only_when_no_fault_is_at_work() -> None:
    findings = Findings("sqlite", 1)
    findings.samples = [Sample(0, 0, False), Sample(1, 100, False), Sample(2, 110, True), Sample(3, 120, False)]

    findings.measure_against(["kill"], 101, 1)

    assert findings.rate_between_faults == 100
    assert findings.shortfalls == [
        "100 records/s between faults, 101 wanted",
        "0 faults of the kind 'kill', 1 wanted",
    ]


def test_a_disk_fails_as_told_below_its_folder_and_nowhere_else(tmp_path: Path) -> None:
    library = build_failing_disk(tmp_path)
    if isinstance(library, str):
        pytest.skip(library)
    folder = tmp_path / "data"
    folder.mkdir()
    disk = Disk(folder, tmp_path / "control", library)
    script = f"""
import os, sys
inside, outside = (os.open(path, os.O_RDWR | os.O_CREAT) for path in ({str(folder / "a")!r}, {str(tmp_path / "b")!r}))
def attempt(act, *arguments):
    try:
        act(*arguments)
        return 0
    except OSError as fault:
        return fault.errno
for _ in sys.stdin:
    acts = [(os.pwrite, b"x", 0), (os.pwritev, [b"x"], 0), (os.write, b"x"), (os.fdatasync,), (os.fsync,)]
    print(*(attempt(act, file, *rest) for file in (inside, outside) for act, *rest in acts), flush=True)
"""
    environment = {**os.environ, **disk.environment}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )

    def codes(condition: Condition) -> list[int]:
        disk.become(condition)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return [int(word) for word in process.stdout.readline().split()]

    assert codes(Condition.WELL) == [0] * 10
    assert codes(Condition.FULL) == [errno.ENOSPC] * 3 + [0] * 7
    assert codes(Condition.UNSYNCED) == [0] * 3 + [errno.EIO] * 2 + [0] * 5
    assert codes(Condition.WELL) == [0] * 10
    process.communicate()


def test_a_direction_that_is_cut_lets_nothing_pass_and_the_other_does() -> None:
    network = Network(["broker-0"])
    try:
        network.open()
    except NetworkUnavailableError as fault:
        pytest.skip(str(fault))
    try:
        program = f"""
import socket, sys
near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
near.bind(({network.address("broker-0")!r}, 9999))
print("ready", flush=True)
while True:
    data, sender = near.recvfrom(100)
    print(data.decode(), flush=True)
    near.sendto(data, sender)
"""
        line = [*network.inside("broker-0"), sys.executable, "-c", program]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
            try:
                _talk(network, process)
            finally:
                process.kill()
    finally:
        network.close()
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"qanat-chaos-{os.getpid()}-" not in left


def _talk(network: Network, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.settimeout(0.3)

        def say(word: str) -> str | None:
            here.sendto(word.encode(), (network.address("broker-0"), 9999))
            try:
                return here.recv(100).decode()
            except TimeoutError:
                return None

        assert say("whole") == "whole"
        network.cut([("broker-0", HOST)])
        assert say("no answer") is None
        network.cut([(HOST, "broker-0")])
        network.join([("broker-0", HOST)])
        assert say("not heard") is None
        network.join([(HOST, "broker-0")])
        assert say("joined") == "joined"
    process.kill()
    assert process.stdout.read().splitlines() == ["whole", "no answer", "joined"]
