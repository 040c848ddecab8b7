"""`python -m bench.rebalance`: how long a group of a hundred members needs until every member has its partitions again.

Real requests over a connection per member, all members in this process, the broker in another. A member sends a
heartbeat every 500 ms, and one at once when it has released partitions, as clients do. A rebalance is settled when
every partition is read by one member and every member reads something. In the new protocol each follows at its own
pace, in the classic one all members join again.

Required: one heartbeat and one second.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.servers import Running, Server, qanat

from bench.group_members import ClassicMember, ConsumerMember, Member, Topic, Wire
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.registry import ApiKey

MEMBERS = 100
PARTITIONS = 200
HEARTBEAT_MS = 500
ALLOWED_S = HEARTBEAT_MS / 1000 + 1.0
ROUNDS = 5
_TIMEOUT_S = 60.0
EXIT_NOT_MET = 1


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.rebalance", description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a rebalance takes longer than required")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, _server().running(Path(folder) / "broker") as broker:
        found = asyncio.run(_measured(broker, asked.members, asked.rounds))
    for what, seconds in found.items():
        middle, worst = statistics.median(seconds), max(seconds)
        verdict = "met" if worst <= ALLOWED_S else "NOT met"
        print(f"{what}: median {middle:.2f} s, worst {worst:.2f} s, required {ALLOWED_S} s: {verdict}")
    is_missed = any(max(seconds) > ALLOWED_S for seconds in found.values())
    return EXIT_NOT_MET if asked.check and is_missed else 0


def _server() -> Server:
    return qanat({"group.consumer.heartbeat.interval.ms": HEARTBEAT_MS, "group.initial.rebalance.delay.ms": 0})


async def _measured(broker: Running, count: int, rounds: int) -> dict[str, list[float]]:
    wire = await Wire.connected(broker.address)
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        for kind in (ConsumerMember, ClassicMember):
            topic = await _made(wire, f"t-{kind.__name__}-{number}")
            members = [await _connected(kind, broker.address, topic, f"m{name:03}") for name in range(count + 1)]
            for what, seconds in (await _stages(members)).items():
                found.setdefault(f"{kind.title}, {what}", []).append(seconds)
    wire.close()
    return found


async def _connected(kind: type[Member], address: str, topic: Topic, name: str) -> Member:
    return kind(await Wire.connected(address), await Wire.connected(address), topic, name, HEARTBEAT_MS)


async def _stages(members: Sequence[Member]) -> dict[str, float]:
    """All but one join at once; then the last joins; then one leaves."""
    *first, last = members
    found = {f"{len(first)} come at once": await _settled(first, first)}
    await asyncio.sleep(2 * HEARTBEAT_MS / 1000)
    found["one more comes"] = await _settled([last], members)
    await asyncio.sleep(2 * HEARTBEAT_MS / 1000)
    began = time.perf_counter()
    await first[0].leave()
    left = members[1:]
    await _wait(left)
    found["one leaves"] = time.perf_counter() - began
    for member in members:
        await member.stop()
    return found


async def _settled(new: Sequence[Member], members: Sequence[Member]) -> float:
    began = time.perf_counter()
    for member in new:
        member.start()
    await _wait(members)
    return time.perf_counter() - began


async def _wait(members: Sequence[Member]) -> None:
    """Wait until every partition has one reader, and every member that should has partitions."""
    deadline = time.perf_counter() + _TIMEOUT_S
    while True:
        held = [number for member in members for number in member.reads]
        is_fair = all(member.reads for member in members)
        if is_fair and sorted(held) == list(range(PARTITIONS)):
            return
        if time.perf_counter() > deadline:
            raise TimeoutError(f"after {_TIMEOUT_S:.0f} s {len(held)} of {PARTITIONS} partitions are read")
        await asyncio.sleep(0.005)


async def _made(wire: Wire, name: str) -> Topic:
    request = CreateTopicsRequest([CreatableTopic(name, PARTITIONS, 1, [], [])], 30_000, False)
    answer = await wire.ask(ApiKey.CREATE_TOPICS, 5, request)
    assert not answer.topics[0].error_code, answer
    found = await wire.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=name)], False))
    return Topic(name, found.topics[0].topic_id, PARTITIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
