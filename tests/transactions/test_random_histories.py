"""Random histories of producers, slow disks, half-written markers and crashes in every state, held to invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.transactions.shell import MINUTE, SECOND, A, B, C, Call, Shell

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.transactions.decision_builder import Timer, TimerKind
from qanat.transactions.records import EPOCH_PER_TRANSACTION
from qanat.transactions.replies import AddReply, ProducerReply, VerifyReply
from qanat.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerIdAndEpoch,
    VerifyPartitions,
)
from qanat.transactions.states import TransactionState

IDS = ("t", "u")
PARTITIONS = (A, B, C)
PRODUCERS = st.integers(0, 3)


@dataclass
class Client:
    """A producer of one version, and what it believes; it may be a zombie."""

    transactional_id: str
    version: int
    who: ProducerIdAndEpoch | None = None
    added: list[TopicPartition] = field(default_factory=list)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    """What was acknowledged in the transaction that is open."""
    verdict: bool | None = None
    """How the client wants to end: once said, it asks for nothing else until it knows."""

    def begin(self, who: ProducerIdAndEpoch, *, keeps_sequence: bool = False) -> None:
        self.who, self.verdict = who, None
        self.added, self.values = [], {}
        if not keeps_sequence:
            self.sequences = {}


class TransactionHistories(RuleBasedStateMachine):
    seen: ClassVar[Counter[str]] = Counter()
    """What happened in all histories together: they must not be dull."""

    @initialize(versions=st.lists(st.sampled_from([0, EPOCH_PER_TRANSACTION]), min_size=4, max_size=4))
    def start(self, versions: list[int]) -> None:
        self.shell = Shell(is_slow=True)
        self.clients = [Client(IDS[number % 2], version) for number, version in enumerate(versions)]
        self.calls: list[tuple[Client, Call]] = []
        self.number = 0
        self.verdicts: dict[str, bool] = {}
        """How the transaction of each value was acknowledged to end."""
        self.decided: dict[tuple[str, int, int], TransactionState] = {}

    # What clients do

    def send(self, client: Client, call: Call) -> None:
        self.calls.append((client, call))

    def is_waiting(self, client: Client) -> bool:
        return any(one is client for one, _ in self.calls)

    @rule(number=PRODUCERS, says_who=st.booleans())
    def init(self, number: int, says_who: bool) -> None:
        client = self.clients[number]
        if not self.is_waiting(client):
            expected = client.who if says_who else None
            self.send(client, self.shell.send(InitProducer(client.transactional_id, MINUTE, expected)))

    @rule(number=PRODUCERS, at=st.sampled_from(PARTITIONS))
    def write(self, number: int, at: TopicPartition) -> None:
        """Classic clients add the partition first; those of version 2 leave it to the leader."""
        client = self.clients[number]
        if client.who is None or client.verdict is not None or self.is_waiting(client):
            return
        if client.version == 0 and at not in client.added:
            self.send(client, self.shell.send(AddPartitions(client.transactional_id, *client.who, (at,))))
            return
        if self.shell.partition(at).is_open(client.who):
            self.append(client, client.who, at)
        elif client.version:
            request = AddPartitions(client.transactional_id, *client.who, (at,), client.version)
            self.send(client, self.shell.send(request))
        else:
            self.send(client, self.shell.send(VerifyPartitions(client.transactional_id, *client.who, (at,))))

    def append(self, client: Client, who: ProducerIdAndEpoch, at: TopicPartition) -> None:
        self.number += 1
        value = f"{client.transactional_id}-{self.number}"
        try:
            self.shell.partition(at).write(who, client.sequences.get(at, 0), value)
        except QanatError:
            self.seen["refused by the log"] += 1
            return
        client.sequences[at] = client.sequences.get(at, 0) + 1
        client.values.setdefault(at, []).append(value)
        self.seen["written"] += 1

    @rule(number=PRODUCERS, is_commit=st.booleans())
    def end(self, number: int, is_commit: bool) -> None:
        """A client that has asked for one verdict asks again for the same one."""
        client = self.clients[number]
        if client.who is None or self.is_waiting(client):
            return
        self.seen["end again"] += client.verdict is not None
        client.verdict = is_commit if client.verdict is None else client.verdict
        request = EndTransaction(client.transactional_id, *client.who, client.verdict, client.version)
        self.send(client, self.shell.send(request))

    def hear(self) -> None:
        waiting = []
        for client, call in self.calls:
            if not call.is_answered:
                waiting.append((client, call))
                continue
            assert len(call.replies) == 1
            self.heard(client, call)
        self.calls = waiting

    def heard(self, client: Client, call: Call) -> None:
        request, reply = call.request, call.replies[0]
        match request, reply:
            case InitProducer(), ProducerReply(ErrorCode.NONE):
                self.seen["began"] += 1
                client.begin(ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch))
            case AddPartitions(), AddReply(ErrorCode.NONE):
                client.added += request.partitions
                if client.version:
                    self.append(
                        client, ProducerIdAndEpoch(request.producer_id, request.producer_epoch), client.added[-1]
                    )
            case VerifyPartitions(), VerifyReply():
                self.after_verification(client, request, reply)
            case EndTransaction(), ProducerReply(ErrorCode.NONE):
                self.note_end(client, request, reply)

    def after_verification(self, client: Client, request: VerifyPartitions, reply: VerifyReply) -> None:
        """The leader writes only if the verdict was not written meanwhile: it would have seen the marker."""
        (at,) = request.partitions
        record = self.shell.shard.ledger.get(request.transactional_id)
        is_so = record is not None and record.state is TransactionState.ONGOING
        if reply.errors[at] is ErrorCode.NONE and is_so and client.who is not None:
            self.append(client, client.who, at)

    def note_end(self, client: Client, request: EndTransaction, reply: ProducerReply) -> None:
        self.seen["committed" if request.is_commit else "aborted"] += 1
        for values in client.values.values():
            for value in values:
                assert self.verdicts.setdefault(value, request.is_commit) is request.is_commit
        client.begin(ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch), keeps_sequence=client.version == 0)

    @rule(number=PRODUCERS, is_commit=st.booleans(), rounds=st.integers(1, 3), stops_after=st.integers(0, 9))
    def behave(self, number: int, is_commit: bool, rounds: int, stops_after: int) -> None:
        """A client does what it should, with a quick disk, and stops in the middle of its last transaction."""
        for turn in range(rounds):
            steps: list[Callable[[], None]] = [
                partial(self.init_once, number),
                *(partial(self.write, number, at) for at in (A, A, A, B, B, B)),
                partial(self.end, number, is_commit),
            ]
            for step in steps[: stops_after if turn == rounds - 1 else None]:
                step()
                self.flush()
            while turn < rounds - 1 and self.shell.markers:
                self.write_marker(0)
                self.flush()

    def init_once(self, number: int) -> None:
        if self.clients[number].who is None:
            self.init(number, says_who=False)

    @rule(number=PRODUCERS, is_commit=st.booleans(), is_failover=st.booleans())
    def crash_between_markers(self, number: int, is_commit: bool, is_failover: bool) -> None:
        self.behave(number, is_commit, rounds=1, stops_after=9)
        if self.shell.markers:
            self.write_marker(0)
        self.crash(is_failover)

    # What the world does

    @rule(which=st.integers(0, 3))
    def write_marker(self, which: int) -> None:
        if self.shell.markers:
            self.shell.write_marker(which % len(self.shell.markers))
            self.seen["marker"] += 1

    @rule()
    def flush(self) -> None:
        self.shell.flush()
        self.hear()

    @rule(duration_ms=st.sampled_from([0, 1, SECOND, 61 * SECOND]))
    def advance(self, duration_ms: int) -> None:
        self.shell.advance(duration_ms)

    @rule(jump_ms=st.sampled_from([-3_600_000, 3_600_000]))
    def set_clock(self, jump_ms: int) -> None:
        self.shell.wall_ms += jump_ms

    @rule(is_failover=st.booleans())
    def crash(self, is_failover: bool) -> None:
        """Unanswered requests are lost; their clients will try again."""
        states = {record.state for record in self.shell.shard.ledger.records.values()}
        for state in states:
            self.seen[f"crash in {state.label}"] += 1
        self.seen["crash between markers"] += any(
            len(left) < len(markers.partitions) for markers, left in self.shell.markers
        )
        self.shell.load(is_failover=is_failover)
        self.calls = [(client, call) for client, call in self.calls if call.is_answered]

    @precondition(lambda self: self.shell.log)
    @rule()
    def fail_append(self) -> None:
        self.shell.fail_append(ErrorCode.NOT_COORDINATOR)
        assert all(call.is_answered for _, call in self.calls), "everybody is told when the append fails"
        self.hear()

    # What must hold

    @invariant()
    def ledger_is_what_the_records_say(self) -> None:
        assert self.shell.shard.ledger == self.shell.replayed()

    @invariant()
    def a_transaction_has_one_verdict_in_all_partitions(self) -> None:
        for at, partition in self.shell.partitions.items():
            committed, aborted = Counter(partition.committed), Counter(partition.aborted)
            assert max([*committed.values(), *aborted.values(), 0]) <= 1, f"{at}: an outcome came twice"
            assert not set(committed) & set(aborted), f"{at}: two outcomes"

    @invariant()
    def what_was_acknowledged_comes_out_so(self) -> None:
        for partition in self.shell.partitions.values():
            assert all(self.verdicts.get(value, True) for value in partition.committed), "an abort became a commit"
            assert not any(self.verdicts.get(value, False) for value in partition.aborted), "a commit became an abort"

    @invariant()
    def markers_of_version_2_are_written_once(self) -> None:
        for partition in self.shell.partitions.values():
            ends = Counter((one.producer_id, one.producer_epoch) for one in partition.markers)
            verdicts = {(one.producer_id, one.producer_epoch): one.is_commit for one in partition.markers}
            for who, count in ends.items():
                if self.is_version_2(who[0]):
                    assert count == 1, (who, verdicts[who])

    def is_version_2(self, producer_id: int) -> bool:
        """Whether only clients of version 2 ever wrote as this producer."""
        known = [one for one in self.clients if one.who is not None]
        ids = {one.transactional_id for one in known if one.who and one.who.producer_id == producer_id}
        return all(one.version for one in self.clients if one.transactional_id in ids)

    @invariant()
    def whatever_is_open_has_a_deadline_and_whatever_is_prepared_is_on_its_way(self) -> None:
        shard = self.shell.shard
        timers = shard._state.timers._deadlines
        under_way = {markers.transactional_id for markers, _ in self.shell.markers}
        under_way |= {one.transactional_id for _, decision in self.shell._unreleased for one in decision.markers}
        for record in shard.ledger.records.values():
            is_ongoing = record.state is TransactionState.ONGOING
            assert (Timer(TimerKind.TRANSACTION, record.transactional_id) in timers) == is_ongoing
            assert (record.transactional_id in under_way) == record.state.is_prepared

    def teardown(self) -> None:
        """Everybody falls silent: within the timeout everything is decided, and stays as it was acknowledged."""
        if not hasattr(self, "shell"):
            return
        self.settle()
        self.shell.load()
        self.settle()
        self.shell.advance(2 * MINUTE)
        self.settle()
        for record in self.shell.shard.ledger.records.values():
            assert record.state.is_idle, record
        for partition in self.shell.partitions.values():
            assert partition.open == {}
            assert partition.producers.first_unstable_offset(partition.end_offset) is None
        outcomes = [
            (value, is_commit)
            for partition in self.shell.partitions.values()
            for is_commit, values in ((True, partition.committed), (False, partition.aborted))
            for value in values
        ]
        assert {value: self.verdicts.get(value, is_commit) for value, is_commit in outcomes} == dict(outcomes)
        assert set(self.verdicts) <= set(dict(outcomes)), "an acknowledged end was lost"

    def settle(self) -> None:
        self.shell.flush()
        self.hear()
        while self.shell.markers:
            self.shell.write_marker()
            self.shell.flush()


ATTEMPTS = 3
"""Sixty histories may happen not to crash where a crash is wanted; more of them do."""


def test_random_histories_keep_their_invariants() -> None:
    TransactionHistories.seen.clear()
    wanted = [
        "began",
        "written",
        "committed",
        "aborted",
        "end again",
        "marker",
        "crash between markers",
        *(f"crash in {state.label}" for state in TransactionState),
    ]
    for _ in range(ATTEMPTS):
        run_state_machine_as_test(
            TransactionHistories,
            settings=settings(
                max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
        missing = [name for name in wanted if not TransactionHistories.seen[name]]
        if not missing:
            break
    assert missing == [], "the histories were dull"
