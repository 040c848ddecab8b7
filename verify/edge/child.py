"""A node below the root: its disk, and the process that pulls from parents, sends its outbox up and asks the registry.

The process does around the cores what the broker's shell does; a kill ends it between any two acts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from qanat.edge import mirror, topology, up_flow
from qanat.edge.backoff import Backoff, spread
from qanat.edge.mirror import (
    Answered,
    AppendBatches,
    Batch,
    Gap,
    GapLedger,
    GoOnAt,
    OnGap,
    Position,
    RaiseEpoch,
    RecordGap,
    Report,
    RestartAt,
    TruncateLog,
)
from qanat.edge.pace import in_order
from qanat.edge.parents import ParentChoice
from qanat.edge.topology import Topology
from qanat.model.ids import LeaderEpoch
from verify.edge import checker
from verify.edge.logs import ModelBatch, ModelLog
from verify.edge.origin import Origin, Reply
from verify.edge.tree import Registry
from verify.edge.world import EdgeMismatchError, Machine, World

BATCH_BYTES = 400
_REQUEST_BYTES = 200
_POLL_MS = 1_000
_REGISTRY_POLL_MS = 300_000
_PARKED_MS = 240_000
"""Longer than real ones: a virtual week is made of them."""


class DiedError(Exception):
    """The process was killed in the middle of something."""


@dataclass
class Disk:
    """What survives a kill; a power loss takes what is not flushed."""

    logs: list[ModelLog]
    gaps: list[tuple[Gap, ...]]
    state_epochs: list[int]
    begun: list[bool]
    """Of each partition, whether it is stored that it begins at offset 0."""
    topology: Topology | None = None
    outbox: dict[int, int] = field(default_factory=dict)
    """Records of the outbox by offset: each is flushed when it is acknowledged to its producer."""
    outbox_start: int = 0
    outbox_end: int = 0
    bound: up_flow.Bound | None = None


class Child(Machine):
    """A node with its disk. `boot` starts a process."""

    def __init__(self, world: World, name: str, partitions: int, on_gap: OnGap, *, sends_up: bool) -> None:
        super().__init__(name)
        self.world = world
        self.on_gap = on_gap
        self.sends_up = sends_up
        logs = [ModelLog() for _ in range(partitions)]
        self.disk = Disk(logs, [()] * partitions, [0] * partitions, [False] * partitions)
        self.process: Process | None = None
        self.accepted: list[int] = []
        """Records of the outbox that were acknowledged to their producer."""
        self.resends = False
        """Whether the operator has decided that another topic gets what is still in the outbox."""
        self.dies = 0.0
        self.heard = [False] * partitions
        """Of each partition, whether an answer was carried out: from then on, all that it lacks must be reported."""
        self.unjudged: list[dict[ModelBatch, None]] = [{} for _ in range(partitions)]
        """Batches that an unclean election has replaced, and of which no parent could say so: it had no records there
        itself when the child went on behind them (docs/decisions/0020-mirrored-topics.md)."""

    def boot(self, registry: Registry, nodes: Mapping[str, Child | Origin]) -> None:
        self.life += 1
        self.process = Process(self, registry, nodes)
        self.process.start()

    def kill(self, *, is_power: bool) -> None:
        if self.process is None:
            return
        self.life += 1
        self.process = None
        if is_power:
            for log in self.disk.logs:
                log.truncate(self.world.random.randint(min(log.flushed, log.end_offset), log.end_offset))

    def may_die(self) -> None:
        if self.dies and self.world.random.random() < self.dies:
            self.kill(is_power=self.world.random.random() < 0.5)
            self.world.note("kill between two acts")
            raise DiedError

    # The pipe's parent side, for the nodes below

    def path(self) -> tuple[str, ...]:
        current = None if self.process is None else self.process.choice.current
        above = () if self.process is None or current is None else self.process.path
        return (self.name, *above)

    def pull(self, number: int, offset: int, epoch: int, most: int) -> Reply:
        log = self.disk.logs[number]
        return log.answer(offset, epoch, most, log.flushed, self.disk.gaps[number])


class Process:
    """One process of a node."""

    def __init__(self, node: Child, registry: Registry, nodes: Mapping[str, Child | Origin]) -> None:
        self.node = node
        self.world = node.world
        self._registry = registry
        self._nodes = nodes
        self._draw = node.world.random.random
        self.ledgers = [GapLedger(gaps) for gaps in node.disk.gaps]
        for number, ledger in enumerate(self.ledgers):
            if ledger.truncate(node.disk.logs[number].end_offset):
                node.disk.gaps[number] = ledger.gaps
        self.go_on: dict[int, int] = {}
        """Partitions whose next offset lies beyond a gap that is recorded."""
        self.stopped: dict[int, Gap] = {}
        kept = node.disk.topology
        self.choice = ParentChoice(() if kept is None else kept.parents, self._draw, self.world.now_ms)
        self.path: tuple[str, ...] = ()
        self._request = 0
        self._is_asking = False
        disk = node.disk
        self.outbox = up_flow.Outbox(disk.outbox_start, disk.outbox_end, 10**6, chunk_records=4)
        self._is_idle = False
        self._up_backoff = Backoff(self._draw)
        self._registry_backoff = Backoff(self._draw)

    def start(self) -> None:
        self.after(0, self.ask)
        self.after(0, self.ask_registry)
        if self.node.sends_up:
            self.after(0, self.send_up)

    def after(self, delay_ms: int, act: Callable[[], None]) -> None:
        def guarded() -> None:
            with contextlib.suppress(DiedError):
                act()

        self.world.after(delay_ms, guarded, self.node)

    def _send(self, target: Machine, size: int, deliver: Callable[[], None], lost: Callable[[], None]) -> None:
        self.world.send(self.node, target, size, deliver, lost)

    # Down

    def ask(self) -> None:
        parent = self.choice.current
        if parent is None or self._is_asking:
            return
        self._is_asking = True
        self._request += 1
        request, target = self._request, self._nodes[parent.node]
        count = len(self.node.disk.logs)
        order = in_order([list(range(count))], request)
        wanted = [(number, *self._position(number)) for number in order]
        life = self.node.life  # An answer goes to the process that asked: its connection ends with it.

        def arrived() -> None:
            self.world.after(0, lambda: self._answer(target, wanted, request, self.world.now_ms, life), target)

        self._send(target, _REQUEST_BYTES, arrived, lambda: self._failed(request))
        self.after(_PARKED_MS + 60_000, lambda: self._failed(request))

    def _position(self, number: int) -> tuple[int, int]:
        log = self.node.disk.logs[number]
        offset = self.go_on.get(number, 0)
        return (offset, -1) if offset > log.end_offset else (log.end_offset, log.last_epoch)

    def _answer(
        self, target: Child | Origin, wanted: list[tuple[int, int, int]], request: int, asked_ms: int, life: int
    ) -> None:
        """At the parent: answer, or park."""
        replies = {number: target.pull(number, offset, epoch, 8) for number, offset, epoch in wanted}
        is_news = any(batches or one.diverging for one, batches in replies.values()) or any(
            offset < replies[number][0].log_start for number, offset, _ in wanted
        )
        left_ms = asked_ms + _PARKED_MS - self.world.now_ms
        if not is_news and left_ms > 0:
            self.world.park(target, left_ms, lambda: self._answer(target, wanted, request, asked_ms, life))
            return
        path = target.path()
        size = _REQUEST_BYTES + BATCH_BYTES * sum(len(batches) for _, batches in replies.values())

        def arrived() -> None:
            if self.node.life == life:
                self.after(0, lambda: self._answered(request, dict(replies), path, is_news=is_news))

        self.world.send(target, self.node, size, arrived, _nothing)

    def _failed(self, request: int) -> None:
        if request == self._request and self._is_asking:
            self._is_asking = False
            self.after(self.choice.failed(self.world.now_ms), self.ask)

    def _answered(self, request: int, replies: dict[int, Reply], path: tuple[str, ...], *, is_news: bool) -> None:
        if request != self._request or not self._is_asking:
            return
        if topology.is_loop(path, self.node.name):
            self._failed(request)
            return
        self._is_asking = False
        self.path = path
        self.choice.succeeded(self.world.now_ms)
        has_moved = [self._apply(number, answered, batches) for number, (answered, batches) in replies.items()]
        # An answer with which nothing can be done would come again at once.
        self.after(
            0 if any(has_moved) else spread(mirror.STOPPED_RETRY_MS if is_news else _POLL_MS, self._draw), self.ask
        )
        probed = self.choice.to_probe(self.world.now_ms)
        if probed is not None:
            self._probe(self._nodes[probed.node])

    def _probe(self, target: Machine) -> None:
        def answer() -> None:
            self.world.send(target, self.node, 50, lambda: self.after(0, lambda: self._probed(is_fit=True)), _nothing)

        self._send(target, 50, answer, lambda: self._probed(is_fit=False))

    def _probed(self, *, is_fit: bool) -> None:
        if self.choice.to_probe(self.world.now_ms) is not None:
            self.choice.probed(is_fit=is_fit, now_ms=self.world.now_ms)

    def _apply(self, number: int, answered: Answered, batches: tuple[ModelBatch, ...]) -> bool:
        """Whether there is something else to ask for now."""
        log = self.node.disk.logs[number]
        offset, epoch = self._position(number)
        ours = None
        if answered.diverging is not None:
            found = log.end_of_epoch(LeaderEpoch(answered.diverging.epoch))
            ours = mirror.EpochEnd(found.epoch, found.end_offset)
        headers = tuple(Batch(one.base_offset, one.next_offset, one.epoch) for one in batches)
        own = Position(log.start, offset, epoch, offset > 0 or self.node.disk.begun[number])
        if mirror.begins_at_zero(own, answered, headers):
            self.node.disk.begun[number] = True
            own = replace(own, has_begun=True)
        step = mirror.next_step(own, ours, answered, headers, self.node.on_gap)
        self.stopped.pop(number, None)
        if isinstance(step, mirror.Append):
            self._note_unjudged(number, answered)
        for act in mirror.acts(step):
            self._do(number, act, batches)
            self.node.may_die()
        self.node.heard[number] = True
        return not isinstance(step, mirror.Wait | mirror.Stop)

    def _note_unjudged(self, number: int, answered: Answered) -> None:
        truth = self._root().truth[number]
        stale = [one for one in self.node.disk.logs[number].batches if truth.get(one.base_offset) != one]
        current = self.choice.current
        parent = None if current is None else self._nodes[current.node]
        inherited = parent.unjudged[number] if isinstance(parent, Child) else {}
        for batch in stale:
            is_before = batch.next_offset <= answered.log_start
            is_in_gap = any(gap.first <= batch.base_offset and batch.next_offset <= gap.end for gap in answered.gaps)
            if is_before or is_in_gap or batch in inherited:
                self.node.unjudged[number][batch] = None

    def _flush(self, log: ModelLog) -> None:
        log.flush()
        self.world.wake(self.node)

    def _do(self, number: int, act: mirror.Act, batches: tuple[ModelBatch, ...]) -> None:
        disk, log = self.node.disk, self.node.disk.logs[number]
        match act:
            case RecordGap():
                self.ledgers[number].record(act.gap)
                disk.gaps[number] = self.ledgers[number].gaps
            case RaiseEpoch():
                disk.state_epochs[number] = max(disk.state_epochs[number], act.epoch)
            case AppendBatches():
                for batch in batches[: act.count]:
                    if disk.state_epochs[number] < batch.epoch:
                        raise EdgeMismatchError(
                            f"{self.node.name}: a batch of epoch {batch.epoch} in state epoch "
                            f"{disk.state_epochs[number]}: clients that read it would refuse the metadata"
                        )
                    if batch.base_offset < log.end_offset:
                        raise EdgeMismatchError(f"{self.node.name}: offset {batch.base_offset} is appended twice")
                    checker.may_append(self._root(), self.node.name, batch)
                    log.append(batch)
                self.go_on.pop(number, None)
                self.after(self.world.random.randint(0, 40), lambda: self._flush(log))
            case GoOnAt():
                self.go_on[number] = act.offset
            case RestartAt():
                checker.may_restart(self.node, number, act.offset)
                log.restart(act.offset)
                self.ledgers[number].truncate(log.end_offset)
                disk.gaps[number] = self.ledgers[number].gaps
                self.go_on.pop(number, None)
            case TruncateLog():
                checker.may_truncate(self._root(), number, self.node.name, log, act.end_offset)
                log.truncate(act.end_offset)
                self.node.may_die()
                disk.state_epochs[number] += 1
                self.ledgers[number].truncate(log.end_offset)
                disk.gaps[number] = self.ledgers[number].gaps
                self.go_on.pop(number, None)
            case Report():
                self.stopped[number] = act.gap

    def _root(self) -> Origin:
        root = self._nodes["root"]
        assert isinstance(root, Origin)
        return root

    # The registry

    def ask_registry(self) -> None:
        kept = self.node.disk.topology
        seen = -1 if kept is None else kept.version

        def answer() -> None:
            found = self._registry.answer(self.node.name, seen)
            self.world.send(self._registry, self.node, 300, lambda: self.after(0, lambda: self._told(found)), _nothing)

        self._send(self._registry, 100, answer, _nothing)
        self.after(spread(_REGISTRY_POLL_MS, self._draw), self.ask_registry)

    def _told(self, offered: Topology | None) -> None:
        disk = self.node.disk
        if offered is None or topology.why_refused(offered, disk.topology, self.node.name) is not None:
            return
        if disk.topology is not None and offered.version < disk.topology.version:
            raise EdgeMismatchError(f"{self.node.name} accepted version {offered.version}, older than its own")
        disk.topology = offered
        self.node.may_die()
        if self.choice.replace(offered.parents, self.world.now_ms):
            self._is_asking = False
            self.after(0, self.ask)
        elif not self._is_asking:
            self.after(0, self.ask)

    # Up

    def accept_record(self, value: int) -> None:
        """A producer of the child writes to the outbox."""
        disk = self.node.disk
        if not self.outbox.has_room(len(disk.outbox) * 100, 100):
            return
        disk.outbox[disk.outbox_end] = value
        disk.outbox_end += 1
        self.outbox.appended(disk.outbox_end)
        self.node.accepted.append(value)
        if self._is_idle:
            self._is_idle = False
            self.after(0, self.send_up)

    def send_up(self) -> None:
        root = self._root()
        match self.outbox.next_act():
            case up_flow.AskMark():
                bound = self.node.disk.bound
                base = self.node.disk.outbox_start if bound is None else bound.base
                self._call(
                    root,
                    100,
                    lambda reply: reply(root.begin_up(self.node.name, base)),
                    lambda mark: self._begun(mark, base),
                )
            case up_flow.Upload() as upload:
                self._upload(root, upload)
            case up_flow.Name(named):
                self._call(root, 150, lambda reply: root.append_upload(self.node.name, named, reply), self._marked)
            case up_flow.Idle():
                self._is_idle = True

    def _upload(self, root: Origin, upload: up_flow.Upload) -> None:
        disk = self.node.disk
        try:
            records = [disk.outbox[offset] for offset in range(upload.first, upload.end)]
        except KeyError as fault:
            raise EdgeMismatchError(f"{self.node.name}: record {fault} was deleted before it was up") from None

        def at_root(reply: Callable[[up_flow.Mark | None], None]) -> None:
            root.upload(self.node.name, upload.first, upload.end, records)
            reply(None)

        def done(_: up_flow.Mark | None) -> None:
            self.outbox.uploaded(upload)
            self.after(0, self.send_up)

        self._call(root, 100 * len(records), at_root, done)

    def _call(
        self,
        root: Origin,
        size: int,
        at_root: Callable[[Callable[[up_flow.Mark | None], None]], None],
        done: Callable[[up_flow.Mark | None], None],
    ) -> None:
        settled: list[None] = []

        def once(act: Callable[[], None]) -> None:
            if not settled:
                settled.append(None)
                self._up_backoff.succeeded()
                act()

        def failed() -> None:
            if not settled:
                settled.append(None)
                self.outbox.failed()
                self.after(self._up_backoff.failed(), self.send_up)

        def reply(mark: up_flow.Mark | None) -> None:
            self.world.send(root, self.node, 80, lambda: self.after(0, lambda: once(lambda: done(mark))), _nothing)

        self._send(root, size, lambda: at_root(reply), failed)
        self.after(90_000, failed)

    def _begun(self, mark: up_flow.Mark | None, asked_base: int) -> None:
        """The parent has said which topic it has, and how far: the outbox is bound first."""
        disk, start = self.node.disk, self.node.disk.outbox_start
        assert mark is not None, "the root has a mark for everybody who begins"
        match up_flow.binding(disk.bound, "root", mark.topic_id, start, is_resent=self.node.resends):
            case up_flow.Keep():
                self._marked(mark)
            case up_flow.Bind(base):
                checker.may_bind(self.node, mark.topic_id)
                disk.bound = up_flow.Bound("root", mark.topic_id, base)
                if base == asked_base:
                    self._marked(mark)
                else:
                    self.after(0, self.send_up)
            case _:
                self.after(self._up_backoff.failed(), self.send_up)

    def _marked(self, mark: up_flow.Mark | None) -> None:
        if mark is None:
            self.outbox.failed()
        else:
            until = self.outbox.marked(mark)
            disk = self.node.disk
            for offset in range(disk.outbox_start, until):
                disk.outbox.pop(offset, None)
            disk.outbox_start = max(disk.outbox_start, until)
        self.after(0, self.send_up)


def _nothing() -> None: ...
