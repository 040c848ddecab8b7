"""The failure detector: decides which brokers are evicted before their lease expires.

A process that ends takes its sockets with it: its followers lose the connection at once, and the next attempt is
refused. That is how a dead process looks, and also how a healthy one looks from behind a broken link (a firewall that
rejects, a stale route). A broker therefore does not trust its own observation alone:

Rule 1: two witnesses. The first writes a failure report into the store, under its own lease. The second finds it there,
        in the image or because its own is refused, and evicts. A few brokers that read a failure report check for
        themselves. Without a second witness the lease decides; so it does with two brokers, of which one is the
        suspect.
Rule 2: a back-off. An eviction records the process that it hit. Where that process registers again, it was alive: no
        witness evicts it for a while, which doubles each time. A process that was started again is another one.
Rule 3: no common clock. Each broker counts the age of an entry from when it read it.
Rule 4: the commit compares everything: the suspect's registration, ours, and the other witness's report.

A wrong eviction costs an election and no record: a lease fences no writer either. The connections, waits and commits
are in `broker.controller.failure_detector`.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Commit, Compare, CreatedAt, Delete, Entry, LeaseId, Operation, Put, Revision

WITNESSES = 2
CHECKERS = 3
"""How many brokers check for themselves when one reports a failure, besides those that lost a connection of their
own."""
REPORT_MS = 3_000
"""How long a failure report counts; then its witness deletes it."""
FIRST_BACK_OFF_MS, LONGEST_BACK_OFF_MS = 10_000, 300_000
QUIET_MS = 2 * LONGEST_BACK_OFF_MS
"""After so long without another, a wrong eviction, or a report that was not shared, counts as the first again."""


class Verdict(Enum):
    """What to do about a broker whose port is closed to us."""

    LEAVE = "leave it to its lease"
    REPORT = "write a failure report"
    EVICT = "remove its registration"


class _Unshared(Struct, frozen=True):
    """Our reports against one process that no other broker shared."""

    incarnation: str
    times: int
    since_ms: int


class FailureDetector:
    """One broker's view of the others."""

    def __init__(self, node_id: int, image: MetadataImage) -> None:
        self._node_id = node_id
        self._image = image
        self._read_ms: dict[str, int] = {}
        """When we read each failure report and each eviction in the image."""
        self._unshared: dict[int, _Unshared] = {}

    def note(self, key: keys.FailureReportKey | keys.EvictionKey, now_ms: int) -> None:
        """The image has another value of this key, or none any more."""
        name = (
            keys.failure_report(key.node_id) if isinstance(key, keys.FailureReportKey) else keys.eviction(key.node_id)
        )
        if name in self._image.revisions:
            self._read_ms[name] = now_ms
        else:
            self._read_ms.pop(name, None)

    def should_check(self, suspect: int) -> bool:
        """Whether we are to check a failure report that was just written."""
        report = self._image.failure_reports.get(suspect)
        if report is None or not self._is_of_another(report, suspect):
            return False
        others = sorted(one for one in self._image.brokers if one not in (suspect, report.witness))
        ring = [one for one in others if one > report.witness] + [one for one in others if one < report.witness]
        return self._node_id in ring[:CHECKERS]

    def may_evict(self, suspect: int, now_ms: int) -> bool:
        """Whether a broker can be evicted before its lease expires: there can be two witnesses, and no back-off
        applies."""
        registration = self._image.brokers.get(suspect)
        if registration is None or suspect == self._node_id or self._node_id not in self._image.brokers:
            return False
        if len(self._image.brokers) <= WITNESSES:
            return False
        last = self._image.evictions.get(suspect)
        if last is None or last.incarnation != registration.incarnation:
            return True
        return self._age_ms(keys.eviction(suspect), now_ms) >= back_off_ms(last.times)

    def decide(self, suspect: int, now_ms: int) -> Verdict:
        """The port of a broker is closed to us, now."""
        if not self.may_evict(suspect, now_ms):
            return Verdict.LEAVE
        report = self._image.failure_reports.get(suspect)
        is_young = self._age_ms(keys.failure_report(suspect), now_ms) < REPORT_MS
        if report is not None and is_young and self._is_of_another(report, suspect):
            return Verdict.EVICT
        unshared = self._unshared_of(suspect, now_ms)
        is_due = unshared is None or now_ms - unshared.since_ms >= back_off_ms(unshared.times)
        return Verdict.REPORT if is_due else Verdict.LEAVE

    def report(self, suspect: int, ours: Revision, lease: LeaseId, now_ms: int) -> Commit:
        """Write our report, unless another is there first; from now on, the next one waits for longer.

        The report's key is the first compare.
        """
        before = self._unshared_of(suspect, now_ms)
        times = 1 if before is None else before.times + 1
        self._unshared[suspect] = _Unshared(self._image.brokers[suspect].incarnation, times, now_ms)
        report = values.FailureReport(witness=self._node_id, broker_epoch=self._image.broker_epochs[suspect])
        key = keys.failure_report(suspect)
        return Commit(
            (self._image.unchanged(key), *self._both_registered(suspect, ours)),
            (Put(key, values.encode(report), lease),),
        )

    def is_shared(self, suspect: int, found: Entry | None) -> bool:
        """Whether our report was refused because another witness was faster."""
        try:
            report = None if found is None else values.decode(values.FailureReport, found.value)
        except values.UnreadableValueError:
            return False
        return report is not None and self._is_of_another(report, suspect)

    def eviction(self, suspect: int, ours: Revision, report: Compare, now_ms: int) -> Commit:
        """Remove a broker, and the controller's key with it where that is the broker's.

        `report` holds as long as the other witness's report stands.
        """
        image = self._image
        incarnation, last = image.brokers[suspect].incarnation, image.evictions.get(suspect)
        is_repeated = last is not None and last.incarnation == incarnation
        is_repeated = is_repeated and self._age_ms(keys.eviction(suspect), now_ms) < QUIET_MS
        note = values.Eviction(incarnation=incarnation, times=last.times + 1 if last and is_repeated else 1)
        compares: list[Compare] = [
            *self._both_registered(suspect, ours),
            report,
            image.unchanged(keys.eviction(suspect)),
        ]
        operations: list[Operation] = [
            Delete(keys.broker(suspect)),
            Put(keys.eviction(suspect), values.encode(note)),
            Delete(keys.failure_report(suspect)),
        ]
        if image.controller is not None and image.controller.node_id == suspect:
            compares.append(image.unchanged(keys.CONTROLLER))
            operations.append(Delete(keys.CONTROLLER))
        return Commit(tuple(compares), tuple(operations))

    def _both_registered(self, suspect: int, ours: Revision) -> tuple[Compare, ...]:
        return self._image.unchanged(keys.broker(suspect)), CreatedAt(keys.broker(self._node_id), ours)

    def _is_of_another(self, report: values.FailureReport, suspect: int) -> bool:
        """Whether another broker that is alive suspects the process that is registered."""
        is_about_it = report.broker_epoch == self._image.broker_epochs.get(suspect)
        return is_about_it and report.witness in self._image.brokers and report.witness not in (suspect, self._node_id)

    def _unshared_of(self, suspect: int, now_ms: int) -> _Unshared | None:
        found = self._unshared.get(suspect)
        if found is None or found.incarnation != self._image.brokers[suspect].incarnation:
            return None
        return found if now_ms - found.since_ms < QUIET_MS else None

    def _age_ms(self, name: str, now_ms: int) -> int:
        return now_ms - self._read_ms.get(name, now_ms)


def back_off_ms(times: int) -> int:
    """For how long a process is left to its lease after so many wrong evictions in a row."""
    return int(min(FIRST_BACK_OFF_MS * 2 ** min(times - 1, 16), LONGEST_BACK_OFF_MS))
