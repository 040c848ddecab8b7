"""A coordinator's shard at work: its partition, its clock, and those who wait for its answers.

Every coordinator keeps a ledger whose shards decide (`groups.decisions`,
`transactions.decisions`). What a shell owes a decision is the same for all of
them and lives here: append its records as one batch, wait until everything
decided so far is durable, then answer; tick when a deadline has come; end when
an append fails. How a ledger's records are written and what follows its
decisions is said by the coordinator that hosts it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from qanat.broker.replicas.partition import Partition
from qanat.model.clock import Now
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Decision = TypeVar("Decision")
Asked = TypeVar("Asked", contravariant=True)
Decided = TypeVar("Decided", covariant=True)


class Clocks(NamedTuple):
    """Where the time comes from that a shard is told."""

    steady_ms: Callable[[], int]
    wall_ms: Callable[[], int]

    def now(self) -> Now:
        return Now(self.steady_ms(), self.wall_ms())


class Shard(Protocol[Asked, Decided]):
    """What decides; it has been started."""

    def decide(self, request: Asked, now: Now) -> Decided: ...

    def tick(self, now: Now) -> Decided: ...

    def next_deadline_ms(self) -> int | None: ...


class CoordinatorShard(ABC, Generic[Request, Reply, Decision]):
    """A shard that serves until an append fails or its partition goes elsewhere."""

    def __init__(self, shard: Shard[Request, Decision], partition: Partition, clocks: Clocks) -> None:
        self._decider = shard
        self.partition = partition
        self.clocks = clocks
        self._unreleased: dict[asyncio.Future[Reply], Request] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.is_serving = True

    # What each coordinator says for itself

    @abstractmethod
    def _batch(self, decision: Decision) -> bytearray | None:
        """A decision's records as they are to be written; None where it has none."""

    @abstractmethod
    def _answers(
        self, decision: Decision, answer: asyncio.Future[Reply] | None
    ) -> Iterable[tuple[asyncio.Future[Reply], Reply]]:
        """Who is told what once a decision, written by now, is durable; `answer` is its asker's."""

    @abstractmethod
    def _refusal(self, request: Request, error: ErrorCode) -> Reply:
        """The answer to a request that was not decided, or whose decision is lost."""

    @abstractmethod
    def _coordinator_error(self, append_error: ErrorCode) -> ErrorCode:
        """What clients are told when appending to the internal topic failed."""

    def _follow(self, decision: Decision) -> None:
        """Do what follows a decision that is durable, besides the answers."""

    # What is the same for all

    def close(self) -> None:
        """Serve no more; whoever waits is told to look for the coordinator again."""
        self.end(ErrorCode.NOT_COORDINATOR)

    def ask(self, request: Request) -> asyncio.Future[Reply]:
        """Decide now; the answer comes when it is durable, or later where the decision says so."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self.is_serving:
            answer.set_result(self._refusal(request, ErrorCode.NOT_COORDINATOR))
            return answer
        decision = self._decider.decide(request, self.clocks.now())
        self._unreleased[answer] = request
        self.act(decision, answer)
        return answer

    def act(self, decision: Decision, answer: asyncio.Future[Reply] | None = None) -> None:
        """Append, then release the answers when everything decided so far is durable."""
        try:
            batch = self._batch(decision)
            durable = self.partition.when_durable() if batch is None else self.partition.append_own(batch).durable
        except QanatError as fault:
            self.end(self._coordinator_error(fault.code))
            return
        releases = self._answers(decision, answer)

        def release(flushed: asyncio.Future[None] | None = None) -> None:
            fault = flushed.exception() if flushed is not None and not flushed.cancelled() else None
            if fault is not None:
                code = fault.code if isinstance(fault, QanatError) else ErrorCode.UNKNOWN_SERVER_ERROR
                self.end(self._coordinator_error(code))
                return
            for waiting, reply in releases:
                self._unreleased.pop(waiting, None)
                if not waiting.done():
                    waiting.set_result(reply)
            self._follow(decision)

        if durable is None:
            release()
        else:
            durable.add_done_callback(release)
        self.set_timer()

    def set_timer(self) -> None:
        """Tick when the next deadline has come; `act` sees to it after every decision."""
        deadline_ms = self._decider.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None and self.is_serving:
            delay_s = max(deadline_ms - self.clocks.steady_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.is_serving:
            self.act(self._decider.tick(self.clocks.now()))

    def end(self, error: ErrorCode) -> None:
        """Refuse everybody whose answer was not released; nothing here can be trusted any more."""
        self.is_serving = False
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._unreleased = self._unreleased, {}
        for answer, request in waiting.items():
            if not answer.done():
                answer.set_result(self._refusal(request, error))
