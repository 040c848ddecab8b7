"""Records on their way up: stored at the child, uploaded, appended by the parent together with a mark, then deleted.

The child's side is `Outbox`, the parent's is `decide`. The parent's mark says up to which offset of the outbox records
are in its topic; it is written in the transaction that appends them and never expires. The upload before promises
nothing.

Rule 1: the parent's mark counts, not the child's memory. A child that has just started, or met a refusal, asks first.
Rule 2: records are appended only from the mark on: `[first, end)` with `first` equal to the mark.
Rule 3: the child deletes only below a mark that is durable at the parent.
Rule 4: a mark is bound to the id of the parent's topic. Under another id there is none, and the child stops until its
        operator decides: the records before its start are gone here, and not in the new topic.
        So the child binds itself to a topic before the first record leaves (`binding`).
Rule 5: a later start of the child fences the earlier: an upload that a former process named is refused.

docs/decisions/0021-up-flow.md says why.
"""

from __future__ import annotations

from msgspec import Struct


class Mark(Struct, frozen=True):
    """What the parent has stored with its records."""

    topic_id: str
    end: int
    epoch: int
    """The producer epoch of the child that is in force."""


class Named(Struct, frozen=True):
    """A request to append an upload: records `[first, end)` of the outbox."""

    topic_id: str
    first: int
    end: int
    epoch: int


class AppendUpload(Struct, frozen=True):
    """Append the records and write this mark, in one transaction."""

    mark: Mark


class Already(Struct, frozen=True):
    """The records are there: answer with the mark."""

    mark: Mark


class RefuseUpload(Struct, frozen=True):
    """Append nothing: answer with the mark, which the child continues from."""

    mark: Mark | None
    is_fenced: bool = False


def begin(mark: Mark | None, topic_id: str, base: int = 0, settled: int = -1) -> Mark:
    """The mark for a child that has started: a new epoch, which fences the former process.

    `base` is where the outbox began when it was bound to the topic: before there is a mark, records come from there on.
    A child that has come back from another parent names the mark that was there then, `settled`: the other one has the
    records from there to `base`. Any other mark stands: it has moved since, or was restored.
    """
    if mark is None or mark.topic_id != topic_id or mark.end == settled:
        return Mark(topic_id, base, 0 if mark is None else mark.epoch + 1)
    return Mark(topic_id, mark.end, mark.epoch + 1)


def decide(mark: Mark | None, named: Named, topic_id: str) -> AppendUpload | Already | RefuseUpload:
    """What the parent does with a named upload. `topic_id` is that of the topic now: a mark may outlive its topic."""
    if mark is None or not mark.topic_id == named.topic_id == topic_id:
        return RefuseUpload(mark)
    if named.epoch != mark.epoch:
        return RefuseUpload(mark, is_fenced=True)
    if named.end <= mark.end:
        return Already(mark)
    if named.first != mark.end:
        return RefuseUpload(mark)
    return AppendUpload(Mark(mark.topic_id, named.end, mark.epoch))


class Bound(Struct, frozen=True):
    """The parent's topic that an outbox's records go to; kept by the child before the first of them leaves."""

    parent: str
    topic_id: str
    base: int
    """Where the outbox began then: the mark, before there is one."""


class Keep(Struct, frozen=True):
    """Go on: it is the bound topic."""


class Bind(Struct, frozen=True):
    """Bind the outbox, then ask for the mark again: records come from `base` on."""

    base: int


class AskFormer(Struct, frozen=True):
    """Ask the former parent how far it has the records, which fences the child there; then bind."""


class TopicIsOther(Struct, frozen=True):
    """The bound topic was made again: the operator must decide."""


def binding(bound: Bound | None, parent: str, topic_id: str, start: int, *, is_resent: bool) -> Binding:
    """What to do with the topic that a parent offers. `start` is where the outbox begins now, `is_resent` what the
    operator has decided about a topic that is another one."""
    if bound is None:
        return Bind(start)
    if bound.topic_id == topic_id:
        return Keep() if bound.parent == parent else Bind(bound.base)
    if is_resent:
        return Bind(start)
    return TopicIsOther() if bound.parent == parent else AskFormer()


Binding = Keep | Bind | AskFormer | TopicIsOther


class AskMark(Struct, frozen=True):
    """Ask the parent for the mark, as a process that has started."""


class Upload(Struct, frozen=True):
    """Upload the records `[first, end)`."""

    first: int
    end: int


class Name(Struct, frozen=True):
    """Name the upload, which is complete."""

    named: Named


class Idle(Struct, frozen=True):
    """Everything is at the parent, or the operator must decide (`stopped`)."""

    stopped: str = ""


Act = AskMark | Upload | Name | Idle


class Outbox:
    """One partition of an outbox. `start` and `end` are those of its log, which survive a crash; nothing else does."""

    def __init__(self, start: int, end: int, capacity_bytes: int, chunk_records: int = 1000) -> None:
        self.start = start
        self.end = end
        self._capacity_bytes = capacity_bytes
        self._chunk_records = chunk_records
        self._mark: Mark | None = None
        self._uploaded: Upload | None = None
        self._stopped = ""

    # Appends

    def has_room(self, stored_bytes: int, size: int) -> bool:
        """Whether a batch may be appended: a full outbox refuses, it drops nothing."""
        return stored_bytes + size <= self._capacity_bytes

    def appended(self, end: int) -> None:
        self.end = end

    # Sending

    def next_act(self) -> Act:
        """What to do next."""
        if self._stopped:
            return Idle(self._stopped)
        if self._mark is None:
            return AskMark()
        if self._uploaded is not None:
            first, end = self._uploaded.first, self._uploaded.end
            return Name(Named(self._mark.topic_id, first, end, self._mark.epoch))
        if self._mark.end >= self.end:
            return Idle()
        return Upload(self._mark.end, min(self.end, self._mark.end + self._chunk_records))

    def marked(self, mark: Mark) -> int:
        """The parent's durable mark came; returns up to where the outbox may be deleted."""
        self._uploaded = None
        if mark.end < self.start:
            self._mark = None
            self._stopped = (
                f"the parent's mark is {mark.end}, and records before {self.start} are deleted here: "
                "the topic was created again, or restored without its marks"
            )
            return self.start
        if mark.end > self.end:
            self._mark = None
            self._stopped = f"the parent's mark is {mark.end}, but the outbox ends at {self.end}: it was restored"
            return self.start
        self._mark = mark
        self.start = max(self.start, mark.end)
        return self.start

    def uploaded(self, upload: Upload) -> None:
        """The parent has the bytes of an upload, and promises nothing."""
        if self._mark is not None and upload.first == self._mark.end:
            self._uploaded = upload

    def failed(self) -> None:
        """A request was not answered, or refused: whatever it did, the parent's mark will say."""
        self._mark = None
        self._uploaded = None
