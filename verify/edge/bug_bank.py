"""Bugs that a tree of brokers could have, put into the cores; the sweep must find each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qanat.edge import mirror, registry, up_flow
from qanat.edge.mirror import Answered, Append, Batch, EpochEnd, OnGap, Position, RecordGap, Step
from qanat.edge.parents import ParentChoice
from qanat.edge.registry import NodeEntry, Place, Refusal, Registration
from qanat.edge.up_flow import Mark, Outbox
from verify.clusters.bug_bank.bug import Patches
from verify.edge.run import EdgeRun
from verify.edge.world import EdgeMismatchError


class EdgeBug(Struct, frozen=True):
    """One bug, as a patch of a core."""

    put_in: Callable[[Patches], None]
    found_at: int
    """The first seed that showed it in the last search."""

    @property
    def name(self) -> str:
        return self.put_in.__name__


def search(bug: EdgeBug, most_seeds: int, first_seed: int = 1) -> int:
    """The first seed that shows a bug; 0 where none does."""
    with Patches() as patches:
        bug.put_in(patches)
        for seed in range(first_seed, first_seed + most_seeds):
            try:
                EdgeRun(seed).run()
            except (EdgeMismatchError, AssertionError, KeyError):
                return seed
    return 0


# Down


def read_above_the_high_watermark(patches: Patches) -> None:
    """A parent serves what is not committed yet, and the child takes it."""
    from verify.edge.origin import Origin, Reply

    def pull(self: Origin, number: int, offset: int, epoch: int, most: int) -> Reply:
        log = self.logs[number]
        return log.answer(offset, epoch, most, log.end_offset, ())

    patches.put(Origin, "pull", pull)


def never_truncate(patches: Patches) -> None:
    """A child that diverges waits for ever."""
    patches.put(mirror, "_parted", lambda own, ours, theirs, answered: mirror.Wait(is_behind=True))


def truncate_to_a_parent_that_is_behind(patches: Patches) -> None:
    """A child throws away what its new parent does not have yet."""

    def parted(own: Position, ours: EpochEnd, theirs: EpochEnd, answered: Answered) -> Step:
        agreed = max(0, min(ours.end_offset, theirs.end_offset))
        return mirror.Truncate(min(max(agreed, own.start), own.end))

    patches.put(mirror, "_parted", parted)


def ask_without_an_epoch(patches: Patches) -> None:
    """A child names no epoch, so that a parent cannot see that their logs diverge."""
    from verify.edge.child import Process

    position = Process._position

    def without(self: Process, number: int) -> tuple[int, int]:
        return position(self, number)[0], -1

    patches.put(Process, "_position", without)


def skip_silently(patches: Patches) -> None:
    """A gap is skipped and recorded nowhere."""
    acts = mirror.acts
    patches.put(mirror, "acts", lambda step: tuple(one for one in acts(step) if not isinstance(one, RecordGap)))


def forget_that_an_empty_log_has_begun(patches: Patches) -> None:
    """A child that had mirrored an empty partition takes what is left of it later for all that ever was in it."""
    patches.put(mirror, "begins_at_zero", lambda own, answered, batches: False)


def skip_first_record_later(patches: Patches) -> None:
    """A gap is recorded after the records behind it are appended: a crash between both leaves a silent one."""
    acts = mirror.acts

    def reversed_acts(step: Step) -> tuple[mirror.Act, ...]:
        if isinstance(step, mirror.Append | mirror.Refresh):
            return tuple(reversed(acts(step))) if not isinstance(step, Append) else _late(acts(step))
        return acts(step)

    patches.put(mirror, "acts", reversed_acts)


def _late(found: tuple[mirror.Act, ...]) -> tuple[mirror.Act, ...]:
    gaps = tuple(one for one in found if isinstance(one, RecordGap))
    return (*(one for one in found if not isinstance(one, RecordGap)), *gaps)


def forget_the_gaps_of_a_parent(patches: Patches) -> None:
    """A hole in the parent's log is a silent one in the child's."""
    step = mirror.next_step

    def without(
        own: Position, own_epoch_end: EpochEnd | None, answered: Answered, batches: tuple[Batch, ...], on_gap: OnGap
    ) -> Step:
        return step(own, own_epoch_end, replace(answered, gaps=()), batches, on_gap)

    patches.put(mirror, "next_step", without)


def start_over_at_a_gap(patches: Patches) -> None:
    """Whatever the operator chose, a gap empties the copy, as a follower's log."""
    step = mirror.next_step

    def over(
        own: Position, own_epoch_end: EpochEnd | None, answered: Answered, batches: tuple[Batch, ...], on_gap: OnGap
    ) -> Step:
        return step(own, own_epoch_end, answered, batches, OnGap.REFRESH)

    patches.put(mirror, "next_step", over)


def keep_the_epoch_of_the_state(patches: Patches) -> None:
    """Batches of a later epoch than the partition's state are appended: clients refuse the metadata from then on."""
    acts = mirror.acts
    patches.put(mirror, "acts", lambda step: tuple(one for one in acts(step) if not isinstance(one, mirror.RaiseEpoch)))


def wait_at_a_batch_across_the_end(patches: Patches) -> None:
    """A parent's batch begins before the child's end and ends behind it: the child waits for one that fits."""
    patches.put(mirror, "_across", lambda own, theirs: mirror.Wait())


def judge_what_lies_in_a_gap(patches: Patches) -> None:
    """A parent compares a child's last record with a hole of its own log."""
    from verify.edge import logs

    patches.put(logs, "epoch_to_compare", lambda offset, epoch, gaps: epoch)


def append_what_is_there_already(patches: Patches) -> None:
    """A batch that overlaps the log's end is appended again."""
    patches.put(mirror, "_across", lambda own, theirs: Append(1, theirs.epoch))


def stay_with_a_dead_parent(patches: Patches) -> None:
    """A node waits for its parent for ever, although another one works."""

    def failed(self: ParentChoice, now_ms: int, *, is_silent: bool = False) -> int:
        self.health.failed()
        return self._backoff.failed()

    patches.put(ParentChoice, "failed", failed)


# The tree


def let_children_be_parents(patches: Patches) -> None:
    """Neither roles nor loops are looked at."""

    def fit(nodes: Mapping[str, NodeEntry], node: str, place: Place) -> Refusal | None:
        return None

    patches.put(registry, "_unfit", fit)


def demote_a_parent(patches: Patches) -> None:
    """A node becomes a leaf while it has children."""

    def fit(nodes: Mapping[str, NodeEntry], changed: NodeEntry) -> Refusal | None:
        return None

    patches.put(registry, "_unfit_above", fit)


def give_a_name_twice(patches: Patches) -> None:
    """A copied machine takes the name of the first."""

    def taken(nodes: Mapping[str, NodeEntry], said: Registration) -> NodeEntry | Refusal:
        return replace(nodes.get(said.node, NodeEntry(node=said.node)), instance=said.instance, url=said.url)

    patches.put(registry, "register", taken)


# Up


def delete_before_the_mark(patches: Patches) -> None:
    """A child deletes what it has uploaded, before the parent has appended it (NanoMQ#2432)."""
    marked = Outbox.marked

    def early(self: Outbox, mark: Mark) -> int:
        marked(self, mark)
        self.start = max(self.start, min(self.end, mark.end + 4))
        return self.start

    patches.put(Outbox, "marked", early)


def forget_the_mark_after_a_while(patches: Patches) -> None:
    """The mark expires, as the state of an idempotent producer does: a child that returns begins at 0."""
    begin = up_flow.begin

    def expired(mark: Mark | None, topic_id: str, base: int = 0, settled: int = -1) -> Mark:
        found = begin(mark, topic_id, base, settled)
        return Mark(found.topic_id, 0, found.epoch) if found.end % 3 == 2 else found

    patches.put(up_flow, "begin", expired)


def count_an_upload_as_done(patches: Patches) -> None:
    """The child takes the answer to an upload for the parent's acknowledgement of its records."""

    def uploaded(self: Outbox, upload: up_flow.Upload) -> None:
        if self._mark is not None:
            self._mark = Mark(self._mark.topic_id, upload.end, self._mark.epoch)

    patches.put(Outbox, "uploaded", uploaded)


def bind_to_any_topic(patches: Patches) -> None:
    """The mark belongs to a name: a topic that was made again gets the rest, and nobody hears that it lacks the first
    part."""
    binding = up_flow.binding

    def by_name(
        bound: up_flow.Bound | None, parent: str, topic_id: str, start: int, *, is_resent: bool
    ) -> up_flow.Binding:
        return binding(bound, parent, topic_id, start, is_resent=True)

    patches.put(up_flow, "binding", by_name)


def append_wherever_it_begins(patches: Patches) -> None:
    """The parent does not compare an upload with the mark: what it has is appended again."""

    def unchecked(
        mark: Mark | None, named: up_flow.Named, topic_id: str
    ) -> up_flow.AppendUpload | up_flow.RefuseUpload:
        if mark is None or mark.topic_id != named.topic_id:
            return up_flow.RefuseUpload(mark)
        return up_flow.AppendUpload(Mark(mark.topic_id, named.end, mark.epoch))

    patches.put(up_flow, "decide", unchecked)


def go_on_after_a_lost_answer(patches: Patches) -> None:
    """A child takes a request without an answer for one that succeeded, in place of asking for the mark."""

    def failed(self: Outbox) -> None:
        if self._uploaded is not None and self._mark is not None:
            self._mark = Mark(self._mark.topic_id, self._uploaded.end, self._mark.epoch)
            self.start = max(self.start, self._uploaded.end)
        self._uploaded = None

    patches.put(Outbox, "failed", failed)


def begin_at_the_start_again(patches: Patches) -> None:
    """A child that has started sends what it still has, without a question: the answer to its last deed was lost."""

    def begin(mark: Mark | None, topic_id: str, base: int = 0, settled: int = -1) -> Mark:
        return Mark(topic_id, base, 0 if mark is None else mark.epoch + 1)

    patches.put(up_flow, "begin", begin)


_FOUND: tuple[tuple[Callable[[Patches], None], int], ...] = (
    (read_above_the_high_watermark, 1),
    (never_truncate, 1),
    (truncate_to_a_parent_that_is_behind, 10),
    (ask_without_an_epoch, 1),
    (skip_silently, 23),
    (forget_that_an_empty_log_has_begun, 110),
    (skip_first_record_later, 23),
    (forget_the_gaps_of_a_parent, 59),
    (start_over_at_a_gap, 4),
    (keep_the_epoch_of_the_state, 1),
    (wait_at_a_batch_across_the_end, 52),
    (judge_what_lies_in_a_gap, 426),
    (append_what_is_there_already, 34),
    (stay_with_a_dead_parent, 1),
    (let_children_be_parents, 1),
    (demote_a_parent, 1),
    (give_a_name_twice, 2),
    (delete_before_the_mark, 1),
    (forget_the_mark_after_a_while, 4),
    (count_an_upload_as_done, 1),
    (bind_to_any_topic, 15),
    (append_wherever_it_begins, 15),
    (go_on_after_a_lost_answer, 15),
    (begin_at_the_start_again, 1),
)
BUGS = tuple(EdgeBug(put_in, found_at) for put_in, found_at in _FOUND)
