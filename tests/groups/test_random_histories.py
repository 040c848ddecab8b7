"""Random histories of clients, clocks, slow disks and crashes, held to named invariants."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

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
from tests.groups.shell import RANGE, SECOND, STICKY, Call, Shell

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.states import GroupState
from qanat.groups.replies import CommitReply, HeartbeatReply, JoinReply, Reply, SyncReply
from qanat.groups.requests import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SyncGroup,
)
from qanat.groups.settings import GroupSettings
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition

SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=3_000, group_max_size=6)
GROUPS = ("g", "h")
PARTITION = TopicPartition("orders", 0)
CLIENTS = st.integers(0, 7)


@dataclass
class Client:
    """What a client believes; it may be wrong, late, or fenced."""

    group_id: str
    instance_id: str | None
    needs_member_id: bool
    protocols: tuple[Any, ...]
    member_id: str = ""
    generation_id: int = -1
    join: JoinReply | None = None
    is_synced: bool = False
    is_called: bool = False
    """To rejoin, by an answer that said so."""

    def hear(self, reply: Reply) -> None:
        error = getattr(reply, "error", ErrorCode.NONE)
        if isinstance(reply, JoinReply) and error is ErrorCode.NONE:
            self.member_id, self.generation_id, self.join = reply.member_id, reply.generation_id, reply
            self.is_called = self.is_synced = False
        elif isinstance(reply, SyncReply) and error is ErrorCode.NONE:
            self.is_synced = True
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            assert isinstance(reply, JoinReply)
            self.member_id = reply.member_id
        elif error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}:
            self.member_id, self.generation_id, self.join = "", -1, None
        elif error in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}:
            self.is_called = True


class GroupHistories(RuleBasedStateMachine):
    seen: ClassVar[Counter[str]] = Counter()
    """What happened in all histories together: they must not be dull."""

    @initialize(kinds=st.lists(st.integers(0, 15), min_size=8, max_size=8))
    def start(self, kinds: list[int]) -> None:
        self.shell = Shell(SETTINGS, is_slow=True)
        self.calls: list[tuple[Client, Call]] = []
        self.heard = 0
        self.nonce = 0
        self.assigned: dict[tuple[str, int], int] = {}
        self.generations: dict[str, int] = {}
        self.acked: dict[str, int] = {}
        self.clients = [
            Client(
                group_id=GROUPS[kind & 1],
                instance_id=f"i{number % 3}" if kind & 2 else None,
                needs_member_id=bool(kind & 4),
                protocols=(RANGE, STICKY) if kind & 8 else (STICKY, RANGE),
            )
            for number, kind in enumerate(kinds)
        ]

    def send(self, client: Client, call: Call) -> Call:
        self.calls.append((client, call))
        return call

    def hear(self) -> None:
        """Clients take note of what they were answered, in order."""
        waiting = []
        for client, call in self.calls:
            if call.is_answered:
                assert len(call.replies) == 1, "a reply is delivered once"
                client.hear(call.replies[0])
                self.note_acknowledged(call)
            else:
                waiting.append((client, call))
        self.calls = waiting

    def note_acknowledged(self, call: Call) -> None:
        request, reply = call.request, call.replies[0]
        if isinstance(request, CommitOffsets) and isinstance(reply, CommitReply):
            if reply.partitions[0].error is ErrorCode.NONE:
                number = int(request.offsets[0].metadata or "0")
                self.acked[request.group_id] = max(number, self.acked.get(request.group_id, 0))
                self.seen["member commit" if request.generation_id >= 0 else "simple commit"] += 1
        elif isinstance(request, DeleteGroup):
            self.acked.pop(request.group_id, None)

    def group_of(self, client: Client) -> ClassicGroup | None:
        return self.shell.shard.groups.get(client.group_id)

    # What clients do

    @rule(who=CLIENTS, retries=st.booleans())
    def join(self, who: int, retries: bool) -> None:
        client = self.clients[who]
        if any(one is client for one, _ in self.calls) and not retries:
            return
        place = self.place_of(client)
        call = self.shell.join(
            client.member_id,
            group_id=client.group_id,
            instance_id=client.instance_id,
            protocols=client.protocols,
            needs_member_id=client.needs_member_id,
        )
        self.send(client, call)
        self.seen["overtaken"] += any(other is client for other, _ in self.calls[:-1])
        group = self.group_of(client)
        if place and group and group.state is GroupState.STABLE and self.place_of(client) != place:
            self.seen["static return"] += 1

    def place_of(self, client: Client) -> str | None:
        """Who holds the client's instance id, in a stable group."""
        group = self.group_of(client)
        is_stable = group is not None and group.state is GroupState.STABLE
        return group.static_members.get(client.instance_id or "") if group and is_stable else None

    @rule(who=CLIENTS)
    def sync(self, who: int) -> None:
        client = self.clients[who]
        if client.join is None:
            return
        self.nonce += 1
        assignments = tuple(
            (member.member_id, f"{client.generation_id}/{self.nonce}/{member.instance_id or member.member_id}".encode())
            for member in client.join.members
        )
        group = self.group_of(client)
        before = group.state if group else None
        request = SyncGroup(
            client.group_id, client.member_id, client.generation_id, client.instance_id, assignments=assignments
        )
        self.send(client, self.shell.send(request))
        if group and before is GroupState.COMPLETING_REBALANCE and group.state is GroupState.STABLE:
            self.assigned[client.group_id, group.generation_id] = self.nonce
            self.seen["assigned"] += 1
            self.seen["assigned to several"] += len(group.members) > 1

    @rule(who=CLIENTS, age=st.sampled_from([0, 0, 1]))
    def heartbeat(self, who: int, age: int) -> None:
        """Of the generation that the client knows, or of the one before: a request that was long under way."""
        client = self.clients[who]
        generation_id = client.generation_id - age
        call = self.shell.send(Heartbeat(client.group_id, client.member_id, generation_id, client.instance_id))
        if age == 0:
            self.send(client, call)
        group = self.group_of(client)
        current = group is not None and group.generation_id == generation_id
        self.shell.flush()
        assert call.reply(HeartbeatReply).error is not ErrorCode.NONE or current, "one generation is active"

    @rule(who=CLIENTS)
    def leave(self, who: int) -> None:
        client = self.clients[who]
        leaving = LeavingMember(client.member_id, client.instance_id)
        self.send(client, self.shell.send(LeaveGroup(client.group_id, (leaving,))))

    @rule(group_id=st.sampled_from(GROUPS), is_leader=st.booleans())
    def lose_one_in_the_middle(self, group_id: str, is_leader: bool) -> None:
        """A group is taken to its next generation, some sync, and then one of them goes."""
        self.behave(group_id, rounds=3, is_missing=-1, stops_after=0)
        group = self.shell.shard.groups.get(group_id)
        if group is None or group.state is not GroupState.COMPLETING_REBALANCE:
            return
        followers = [one for one in group.members.values() if one.member_id != group.leader_id]
        for member in followers:
            self.shell.send(SyncGroup(group_id, member.member_id, group.generation_id))
        gone = group.leader_id if is_leader or not followers else followers[0].member_id
        self.seen["left while syncing"] += gone != group.leader_id
        self.shell.send(LeaveGroup(group_id, (LeavingMember(gone or ""),)))

    @rule(who=CLIENTS)
    def bounce(self, who: int) -> None:
        """A client's process starts again: it comes back without its member id."""
        client = self.clients[who]
        client.member_id, client.generation_id, client.join = "", -1, None
        self.join(who, retries=True)

    @rule(who=CLIENTS, offset=st.integers(0, 100))
    def commit(self, who: int, offset: int) -> None:
        """The number in the metadata grows, whatever the offset does: so a step back shows."""
        client = self.clients[who]
        self.nonce += 1
        offsets = (OffsetToCommit("orders", 0, offset, metadata=str(self.nonce)),)
        request = CommitOffsets(client.group_id, offsets, client.member_id, client.generation_id, client.instance_id)
        self.send(client, self.shell.send(request))

    @rule(who=CLIENTS, producer_id=st.integers(1, 2))
    def commit_in_transaction(self, who: int, producer_id: int) -> None:
        client = self.clients[who]
        self.shell.send(
            CommitTransactionOffsets(client.group_id, producer_id, 0, (OffsetToCommit("payments", 0, self.nonce),))
        )

    @rule(producer_id=st.integers(1, 2), is_commit=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        self.shell.end_transaction(producer_id, is_commit=is_commit)

    @rule(group_id=st.sampled_from(GROUPS))
    def delete(self, group_id: str) -> None:
        nobody = Client(group_id, None, False, ())
        self.send(nobody, self.shell.send(DeleteGroup(group_id)))
        if group_id not in self.shell.shard.groups:
            self.acked.pop(group_id, None)
            self.generations.pop(group_id, None)

    @rule(
        group_id=st.sampled_from(GROUPS),
        rounds=st.integers(1, 5),
        is_missing=st.integers(0, 12),
        stops_after=st.integers(0, 8),
    )
    def behave(self, group_id: str, rounds: int, is_missing: int, stops_after: int) -> None:
        """All clients of a group, but perhaps one, do what they should, and stop in the middle of a round."""
        present = [one for number, one in enumerate(self.clients) if one.group_id == group_id and number != is_missing]
        for turn in range(rounds):
            for client in present[: stops_after if turn == rounds - 1 else None]:
                number = self.clients.index(client)
                if client.join is None or client.is_called:
                    self.join(number, retries=False)
                elif not client.is_synced:
                    self.sync(number)
                else:
                    self.heartbeat(number, age=0)
                    self.commit(number, offset=number)
            if turn < rounds - 1:
                self.shell.advance(3 * SECOND)
                self.flush()

    # What the world does

    @rule(duration_ms=st.sampled_from([0, 1, 500, 3 * SECOND, 11 * SECOND, 61 * SECOND]))
    def advance(self, duration_ms: int) -> None:
        self.shell.advance(duration_ms)

    @rule(jump_ms=st.sampled_from([-3_600_000, 3_600_000]))
    def set_clock(self, jump_ms: int) -> None:
        self.shell.wall_ms += jump_ms

    @rule()
    def flush(self) -> None:
        self.shell.flush()
        self.hear()

    @rule()
    def crash(self) -> None:
        """Unanswered requests are lost; their clients will try again."""
        self.shell.crash()
        self.calls = [(client, call) for client, call in self.calls if call.is_answered]
        self.forget_live()

    @precondition(lambda self: self.shell.log)
    @rule()
    def fail_append(self) -> None:
        self.shell.fail_append(ErrorCode.NOT_COORDINATOR)
        assert all(call.is_answered for _, call in self.calls), "everybody is told when the append fails"
        self.hear()
        self.forget_live()

    def forget_live(self) -> None:
        """A generation that was never written may be used again; one that was written is the floor."""
        states = [group.state for group in self.shell.shard.groups.values()]
        self.seen["reloaded stable"] += GroupState.STABLE in states
        self.generations = {key: record.generation_id for key, record in self.shell.shard.ledger.groups.items()}

    # What must hold

    @invariant()
    def ledger_is_what_the_records_say(self) -> None:
        assert self.shell.shard.ledger == self.shell.replayed()

    @invariant()
    def a_stable_group_is_written_down(self) -> None:
        for group_id, group in self.shell.shard.groups.items():
            if group.state is GroupState.STABLE:
                assert self.shell.shard.ledger.groups[group_id] == group.as_record()

    @invariant()
    def generations_only_grow(self) -> None:
        for group_id in [one for one in self.generations if one not in self.shell.shard.groups]:
            del self.generations[group_id]
        for group_id, group in self.shell.shard.groups.items():
            assert group.generation_id >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation_id

    @invariant()
    def members_of_a_stable_group_have_what_the_leader_gave(self) -> None:
        for group_id, group in self.shell.shard.groups.items():
            if group.state is GroupState.STABLE:
                nonce = self.assigned[group_id, group.generation_id]
                for member in group.members.values():
                    identity = member.instance_id or member.member_id
                    assert member.assignment == f"{group.generation_id}/{nonce}/{identity}".encode()

    @invariant()
    def acknowledged_commits_stand(self) -> None:
        for group_id, number in self.acked.items():
            record = self.shell.shard.ledger.offsets.get(group_id, PARTITION)
            assert record is not None, "an acknowledged commit is lost"
            assert int(record.metadata) >= number, "a commit went back"

    @invariant()
    def every_parked_request_belongs_to_a_member(self) -> None:
        held = [
            ticket
            for group in self.shell.shard.groups.values()
            for member in group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        ]
        assert sorted(held) == sorted(self.shell.waiting_tickets)

    @invariant()
    def books_are_kept(self) -> None:
        for group in self.shell.shard.groups.values():
            members = list(group.members.values())
            assert group.awaiting_join_count == sum(member.join_ticket is not None for member in members)
            assert (group.leader_id in group.members) if members else group.leader_id is None
            assert group.static_members == {one.instance_id: one.member_id for one in members if one.instance_id}
            assert all(member_id in group.members for member_id in group.pending_syncs)
            assert not any(member_id in group.members for member_id in group.pending_members)
            known = [protocol.name for member in members for protocol in member.protocols]
            assert group.supporters == {name: known.count(name) for name in known}
            assert len(members) <= SETTINGS.group_max_size or group.state is GroupState.PREPARING_REBALANCE
            assert (group.state is GroupState.EMPTY) <= (not members)

    @invariant()
    def nobody_is_waited_for_without_a_deadline(self) -> None:
        timers = self.shell.shard._state.timers._deadlines
        for group in self.shell.shard.groups.values():
            preparing = group.state is GroupState.PREPARING_REBALANCE
            assert (Timer(TimerKind.JOIN, group.group_id) in timers) == preparing
            if group.state is GroupState.COMPLETING_REBALANCE:
                assert Timer(TimerKind.SYNC, group.group_id) in timers or not group.pending_syncs
            for member in group.members.values():
                is_waiting = member.join_ticket is not None or member.sync_ticket is not None
                assert is_waiting or Timer(TimerKind.SESSION, group.group_id, member.member_id) in timers
            for member_id in group.pending_members:
                assert Timer(TimerKind.SESSION, group.group_id, member_id) in timers

    def teardown(self) -> None:
        """Clients fall silent: every request is answered in the end, and every group is empty."""
        if not hasattr(self, "shell"):
            return
        self.shell.advance(900 * SECOND)
        self.shell.flush()
        assert [call for _, call in self.calls if not call.is_answered] == []
        assert all(group.state is GroupState.EMPTY for group in self.shell.shard.groups.values())
        assert self.shell.shard.ledger == self.shell.replayed()


def test_random_histories_keep_their_invariants() -> None:
    GroupHistories.seen.clear()
    run_state_machine_as_test(
        GroupHistories,
        settings=settings(
            max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    wanted = [
        "assigned",
        "assigned to several",
        "static return",
        "reloaded stable",
        "member commit",
        "simple commit",
        "left while syncing",
    ]
    assert {name for name in wanted if GroupHistories.seen[name] < 3} == set(), "the histories were dull"
