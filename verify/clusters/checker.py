"""The history checker: anomalies that a history of sends and polls may not show.

The names of anomalies are those of Jepsen's queue analyses. Each check reads the whole history and returns its problems
as text. A history without an acknowledged record is a problem as well: it shows nothing.

Rule: an operation whose outcome is unknown may have happened, or not, or not yet; it never counts as failed.

`verify.chaos` applies the same checks to real clusters, one partition at a time: their histories are long.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from verify.clusters.history import History, Outcome, Poll, Send


def problems(history: History) -> list[str]:
    """All problems of a history."""
    return [*partition_problems(history), *transaction_problems(history)]


def partition_problems(history: History) -> list[str]:
    """Problems within partitions; the history may be that of one partition, or of all."""
    checks = (
        _empty,
        _inconsistent_offsets,
        _wrong_offsets,
        _failed_but_seen,
        _invented,
        _duplicates,
        _lost_and_unseen,
        _skips_and_steps_back,
        _sends_out_of_order,
    )
    return [problem for check in checks for problem in check(history)]


def _empty(history: History) -> Iterator[str]:
    if not history.acknowledged:
        yield "empty: nothing was acknowledged, so nothing is shown"
    if not any(poll.is_final for poll in history.polls):
        yield "empty: no consumer read everything in the end"


def _inconsistent_offsets(history: History) -> Iterator[str]:
    """One offset, two values."""
    values: dict[tuple[int, int], bytes] = {}
    for poll in history.polls:
        for offset, value in poll.seen:
            known = values.setdefault((poll.partition, offset), value)
            if known != value:
                yield f"inconsistent-offsets: {poll.partition}@{offset} is {_show(known)} and {_show(value)}"


def _wrong_offsets(history: History) -> Iterator[str]:
    """A value is read at another offset than its acknowledgement names."""
    offsets = {(send.partition, send.value): send.offset for send in history.sends if send.outcome is Outcome.DONE}
    for poll in history.polls:
        for offset, value in poll.seen:
            acknowledged = offsets.get((poll.partition, value), offset)
            if acknowledged not in (offset, -1):
                yield f"wrong-offset: {_show(value)} was acknowledged at {acknowledged} and is at {offset}"


def _failed_but_seen(history: History) -> Iterator[str]:
    """G1a: a value that was refused or aborted is read."""
    failed = {(send.partition, send.value) for send in history.sends if send.outcome is Outcome.FAILED}
    for partition, value in sorted(failed & _seen(history.polls)):
        yield f"G1a: {_show(value)} was refused or aborted and is read in partition {partition}"


def _invented(history: History) -> Iterator[str]:
    sent = {(send.partition, send.value) for send in history.sends}
    for partition, value in sorted(_seen(history.polls) - sent):
        yield f"invented: {_show(value)} in partition {partition} was never sent there"


def _duplicates(history: History) -> Iterator[str]:
    """One value at two offsets."""
    places: dict[tuple[int, bytes], int] = {}
    for poll in history.polls:
        for offset, value in poll.seen:
            first = places.setdefault((poll.partition, value), offset)
            if first != offset:
                yield f"duplicate: {_show(value)} is at {first} and at {offset} of partition {poll.partition}"


def _lost_and_unseen(history: History) -> Iterator[str]:
    """The final read lacks an acknowledged value, or one that was read before."""
    final = [poll for poll in history.polls if poll.is_final]
    seen = _seen(final)
    last: dict[int, int] = {}
    for poll in history.polls:
        for offset, _ in poll.seen:
            last[poll.partition] = max(last.get(poll.partition, -1), offset)
    for send in history.sends:
        if send.outcome is Outcome.DONE and (send.partition, send.value) not in seen:
            is_passed = send.offset < last.get(send.partition, -1)
            kind = "lost-write" if is_passed else "unseen"
            yield f"{kind}: {_show(send.value)}, acknowledged at {send.partition}@{send.offset}, is not there"
    seen_ever = _seen(history.polls)
    for partition, value in sorted(seen_ever - seen):
        yield f"lost-write: {_show(value)} was read from partition {partition} and is there no more"


def transaction_problems(history: History) -> Iterator[str]:
    """A transaction is read in part. The history must hold every partition that it wrote to."""
    seen = _seen(poll for poll in history.polls if poll.is_final)
    transactions: dict[int, list[Send]] = {}
    for send in history.sends:
        if send.transaction >= 0:
            transactions.setdefault(send.transaction, []).append(send)
    for number, sends in transactions.items():
        there = [send for send in sends if (send.partition, send.value) in seen]
        if there and len(there) < len(sends):
            yield f"torn-transaction: {len(there)} of the {len(sends)} records of transaction {number} are read"


def _skips_and_steps_back(history: History) -> Iterator[str]:
    """A consumer skips a record that is there, or goes back."""
    known: dict[int, list[int]] = {}
    for poll in history.polls:
        known.setdefault(poll.partition, []).extend(offset for offset, _ in poll.seen)
    present = {partition: sorted(set(offsets)) for partition, offsets in known.items()}
    for poll in history.polls:
        offsets = [offset for offset, _ in poll.seen]
        if offsets != sorted(set(offsets)):
            yield f"int-nonmonotonic-poll: {poll.client} saw {offsets} in partition {poll.partition}"
        if offsets and offsets[0] < poll.position:
            yield f"nonmonotonic-poll: {poll.client} asked for {poll.position} and got {offsets[0]}"
        if not offsets:
            continue
        there = present[poll.partition]
        covered = there[bisect_left(there, poll.position) : bisect_right(there, offsets[-1])]
        if skipped := sorted(set(covered) - set(offsets)):
            yield f"poll-skip: {poll.client} passed over {skipped[:5]} of partition {poll.partition}"


def _sends_out_of_order(history: History) -> Iterator[str]:
    """Records that a client sends to a partition one after another do not have growing offsets."""
    last: dict[tuple[str, int], Send] = {}
    for send in sorted(history.sends, key=lambda send: send.invoked):
        if send.outcome is not Outcome.DONE or send.offset < 0:
            continue
        before = last.get((send.client, send.partition))
        if before is not None and before.offset >= send.offset:
            first, second = f"{_show(before.value)} at {before.offset}", f"{_show(send.value)} at {send.offset}"
            yield f"nonmonotonic-send: {first}, then {second}"
        last[send.client, send.partition] = send


def _seen(polls: Iterable[Poll]) -> set[tuple[int, bytes]]:
    return {(poll.partition, value) for poll in polls for _, value in poll.seen}


def _show(value: bytes) -> str:
    return value.decode(errors="replace")
