"""The judge of a run: the simulation's checker on the journals, partition by partition, then on whole transactions."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from verify.chaos.journal import read_polls, read_sends
from verify.clusters.checker import partition_problems, transaction_problems
from verify.clusters.history import History, Outcome

_PROCESSES = 2
_MEMBERS = ("member-a", "member-b")


def judge(journals: Path, topics: dict[str, int]) -> list[str]:
    """All anomalies of a run."""
    places = [(journals, topic, number) for topic, count in topics.items() for number in range(count)]
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        found = [problem for problems in pool.map(judge_partition, places) for problem in problems]
        for problems in pool.map(judge_transactions, [(journals, topic, topics[topic]) for topic in topics]):
            found += problems
    return found


def judge_partition(place: tuple[Path, str, int]) -> list[str]:
    journals, topic, number = place
    gc.disable()  # Millions of values without a cycle among them.
    history = History(list(read_sends(journals, topic, number)), list(read_polls(journals, topic, number)))
    found = [*partition_problems(history), *_unread_by_the_group(history)]
    return [f"{topic}: {problem}" for problem in found]


def _unread_by_the_group(history: History) -> Iterator[str]:
    """Records that no member read. Members commit only what they have read, so together they read everything."""
    read = {value for poll in history.polls if poll.client in _MEMBERS for _, value in poll.seen}
    for send in history.sends:
        if send.outcome is Outcome.DONE and send.value not in read:
            yield f"unread-by-group: no member read {send.value.decode()}, at {send.partition}@{send.offset}"


def judge_transactions(topic: tuple[Path, str, int]) -> list[str]:
    journals, name, partitions = topic
    gc.disable()
    history = History()
    for number in range(partitions):
        sends = [send for send in read_sends(journals, name, number) if send.transaction >= 0]
        if sends:
            history.sends += sends
            history.polls += [poll for poll in read_polls(journals, name, number) if poll.is_final]
    return [f"{name}: {problem}" for problem in transaction_problems(history)]
