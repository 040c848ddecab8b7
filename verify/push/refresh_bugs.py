"""Bugs that refreshes could have, in the broker, its ledger or a client; the sweep must find each of them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from qanat.connection.push.receiving import ResumePoint
from qanat.connection.push.refreshing import Refresh, RefreshEvent, RefreshFrames
from qanat.edge import refresh_ledger, refresh_turn
from qanat.edge.push_session import Cursor, Place, PushSession
from qanat.edge.refresh_turn import RefreshTurn, Stage
from qanat.model.ids import TopicPartition
from qanat.model.push_refreshes import PartitionRefresh, PushRefresh, RefreshState
from verify.clusters.bug_bank.bug import Patches
from verify.push.bug_bank import PushBug
from verify.push.model import PushMismatchError
from verify.push.refresh_consumer import StoreConsumer
from verify.push.refresh_model import Generation, Store
from verify.push.refresh_run import RefreshRun


def search_refreshes(bug: PushBug, most_seeds: int, first_seed: int = 1) -> int:
    """The first seed that shows a bug; 0 where none does."""
    with Patches() as patches:
        bug.put_in(patches)
        for seed in range(first_seed, first_seed + most_seeds):
            try:
                RefreshRun(seed).run()
            except (PushMismatchError, AssertionError, KeyError):
                return seed
    return 0


def commit_what_is_replayed(patches: Patches) -> None:
    """Acknowledgements of replayed records are committed: after a crash, what is served has gaps."""
    replay = PushSession.replay

    def replayed(self: PushSession, at: TopicPartition, place: Place, end: Place) -> None:
        replay(self, at, place, end)
        self.cursors[at].floor = -1

    patches.put(PushSession, "replay", replayed)


def ready_before_the_last_ack(patches: Patches) -> None:
    """READY follows the last record, not its acknowledgement: the record may be lost on its way into the store."""

    def is_replayed(self: PushSession, at: TopicPartition) -> bool:
        cursor = self.cursors[at]
        return not cursor.reset_id and cursor.place.offset >= cursor.limit

    patches.put(PushSession, "is_replayed", is_replayed)


def ready_of_some_partitions(patches: Patches) -> None:
    """READY does not wait for partitions that are behind: two generations are served at once."""

    def replayed(self: RefreshTurn) -> list[TopicPartition]:
        return [at for at in self._in(Stage.REPLAYING) if self._session.is_replayed(at)]

    patches.put(RefreshTurn, "_replayed", replayed)


def send_beyond_the_end(patches: Patches) -> None:
    """Records after the captured end come before READY."""

    def may_send(self: PushSession, at: TopicPartition) -> bool:
        cursor = self.cursors.get(at)
        return cursor is not None and not cursor.reset_id and self.credit.is_open

    patches.put(PushSession, "may_send", may_send)


def send_before_the_ack_of_reset(patches: Patches) -> None:
    """Records go on while RESET is on its way."""
    patches.put(PushSession, "hold", lambda self, at: None)


def take_an_ack_of_reset_for_one_of_ready(patches: Patches) -> None:
    """Any ACK of a refresh moves its partitions on."""

    def answered(self: RefreshTurn, frame_id: int, reached: Mapping[TopicPartition, Place]) -> list[TopicPartition]:
        _, attempts = self._frames.pop(frame_id, (Stage.NEW, {}))
        replayed = []
        for at, part in self.parts.items():
            if at in attempts and part.stage is Stage.ASKED:
                self._session.replay(at, reached.get(at, Place(part.start)), part.end)
                part.stage, part.is_written = Stage.REPLAYING, False
                replayed.append(at)
            elif at in attempts and part.stage is Stage.READYING:
                part.stage, part.is_written = Stage.SWITCHED, False
                self._session.switched(at)
        return replayed

    patches.put(RefreshTurn, "answered", answered)


def replay_to_an_end_that_is_gone(patches: Patches) -> None:
    """The log was cut below the captured end, and the replay waits for it."""
    patches.put(PushSession, "clip", lambda self, at, end: None)


def forget_what_the_client_takes_records_for(patches: Patches) -> None:
    """A partition comes back after its refresh has ended elsewhere: its records go into the unfinished one."""

    def turn_of(
        turn: RefreshTurn | None, session: PushSession, topic: str, entry: PushRefresh | None
    ) -> RefreshTurn | None:
        session.told.clear()
        return found(turn, session, topic, entry)

    found = refresh_turn.turn_of
    from verify.push import refresh_broker

    patches.put(refresh_broker, "turn_of", turn_of)


def go_on_with_a_cancelled_refresh(patches: Patches) -> None:
    """The ledger is not looked at again: a cancelled refresh holds its partitions for ever."""
    patches.put(RefreshTurn, "compare", lambda self, entry: None)
    patches.put(RefreshTurn, "_overtaken", lambda self: None)


def never_repeat_reset(patches: Patches) -> None:
    """RESET is sent once: an application that could not answer it is not asked again."""
    patches.put(refresh_turn, "RESET_RETRY_MS", 10**9)


def never_repeat_ready(patches: Patches) -> None:
    """READY is sent once."""
    patches.put(refresh_turn, "READY_RETRY_MS", 10**9)


def go_on_from_the_commit(patches: Patches) -> None:
    """After READY, records follow from the next read of the log, not from the end of the replay."""
    go_on = PushSession.go_on

    def gone_on(self: PushSession, at: TopicPartition) -> None:
        go_on(self, at)
        cursor = self.cursors[at]
        self.cursors[at] = Cursor(Place(cursor.place.offset + 1, cursor.place.epoch), cursor.assignment)

    patches.put(PushSession, "go_on", gone_on)


def serve_at_reset(patches: Patches) -> None:
    """The application serves the new generation when it begins."""
    reset = Store.reset

    def served(self: Store, refresh: Refresh) -> dict[TopicPartition, ResumePoint]:
        reached = reset(self, refresh)
        for at in refresh.partitions:
            self.served[at] = self.open.pop(at, self.served[at])
        return reached

    patches.put(Store, "reset", served)


def continue_an_older_generation(patches: Patches) -> None:
    """The application goes on with what an earlier refresh has left."""
    reset = Store.reset

    def continued(self: Store, refresh: Refresh) -> dict[TopicPartition, ResumePoint]:
        for at in refresh.partitions:
            if at in self.open:
                old = self.open[at]
                self.open[at] = Generation(refresh.id, old.start, old.rows)
        return reset(self, refresh)

    patches.put(Store, "reset", continued)


def lose_a_failed_event(patches: Patches) -> None:
    """The client takes the repetition of what failed for one that is being handled."""
    patches.put(RefreshFrames, "failed", lambda self, event: None)


def keep_records_of_a_refresh_after_ready(patches: Patches) -> None:
    """The client adds records after READY to the refresh, as if it went on."""
    answered = RefreshFrames.answered

    def kept(
        self: RefreshFrames, event: RefreshEvent, reached: Mapping[TopicPartition, ResumePoint] | None = None
    ) -> bytes:
        under_way = dict(self.under_way)
        payload = answered(self, event, reached)
        if event.is_ready:
            self.under_way.update(under_way)
        return payload

    patches.put(RefreshFrames, "answered", kept)


def keep_what_a_lost_connection_began(patches: Patches) -> None:
    """A client that connects again goes on with the refreshes of the connection before: one that was cancelled takes
    records with it that are served."""
    begin = StoreConsumer._begin

    def begun(self: StoreConsumer) -> None:
        frames = getattr(self, "frames", None)
        begin(self)
        if frames is not None:
            self.frames = frames

    patches.put(StoreConsumer, "_begin", begun)


def end_without_a_subscriber(patches: Patches) -> None:
    """A refresh is done for a partition as soon as its subscriber is gone."""
    revoked = RefreshTurn.revoked

    def ended(self: RefreshTurn, at: TopicPartition) -> None:
        revoked(self, at)
        self._session.told.pop(at, None)

    asked = refresh_ledger._asked

    def done(one: PartitionRefresh, reached: tuple[int, int], now_ms: int) -> PartitionRefresh | None:
        made = asked(one, reached, now_ms)
        return replace(made, state=RefreshState.DONE) if made is not None and made.attempt > 1 else made

    patches.put(RefreshTurn, "revoked", ended)
    patches.put(refresh_ledger, "_asked", done)


REFRESH_BUGS = (
    PushBug(commit_what_is_replayed, 11),
    PushBug(ready_before_the_last_ack, 3),
    PushBug(ready_of_some_partitions, 10),
    PushBug(send_beyond_the_end, 1),
    PushBug(send_before_the_ack_of_reset, 1),
    PushBug(take_an_ack_of_reset_for_one_of_ready, 437),
    PushBug(replay_to_an_end_that_is_gone, 84),
    PushBug(forget_what_the_client_takes_records_for, 235),
    PushBug(go_on_with_a_cancelled_refresh, 8),
    PushBug(never_repeat_reset, 1),
    PushBug(never_repeat_ready, 4),
    PushBug(go_on_from_the_commit, 1),
    PushBug(serve_at_reset, 41),
    PushBug(continue_an_older_generation, 11),
    PushBug(lose_a_failed_event, 1),
    PushBug(keep_records_of_a_refresh_after_ready, 1),
    PushBug(end_without_a_subscriber, 1),
    PushBug(keep_what_a_lost_connection_began, 2),
)
