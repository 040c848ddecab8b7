"""A coordinator's shard: its partition, its clock, and the requests that wait for its answers.

Every coordinator has a ledger whose shards decide (`groups.decisions`, `transactions.decisions`). What follows a
decision is the same for all and lives here: append its records as one batch, wait until everything decided so far is
durable, then answer; tick when a deadline has come; end when an append fails. Each coordinator says how its records are
encoded and what else follows its decisions.
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
RequestIn = TypeVar("RequestIn", contravariant=True)
Decided = TypeVar("Decided", covariant=True)


class Clocks(NamedTuple):
    """The clocks of a shard."""

    steady_ms: Callable[[], int]
    wall_ms: Callable[[], int]

    def now(self) -> Now:
        return Now(self.steady_ms(), self.wall_ms())


class Shard(Protocol[RequestIn, Decided]):
    """A ledger's shard, which decides; it has been started."""

    def decide(self, request: RequestIn, now: Now) -> Decided: ...

    def tick(self, now: Now) -> Decided: ...

    def next_deadline_ms(self) -> int | None: ...


class CoordinatorShard(ABC, Generic[Request, Reply, Decision]):
    """A shard that serves until an append fails or its partition is led elsewhere."""

    def __init__(self, shard: Shard[Request, Decision], partition: Partition, clocks: Clocks) -> None:
        self._decider = shard
        self.partition = partition
        self.clocks = clocks
        self._unreleased: dict[asyncio.Future[Reply], Request] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.is_serving = True

    # What each coordinator defines

    @abstractmethod
    def _batch(self, decision: Decision) -> bytearray | None:
        """A decision's records, encoded; None where it has none."""

    @abstractmethod
    def _answers(
        self, decision: Decision, answer: asyncio.Future[Reply] | None
    ) -> Iterable[tuple[asyncio.Future[Reply], Reply]]:
        """The replies to send once a decision, appended by now, is durable; `answer` is that of its request."""

    @abstractmethod
    def _refusal(self, request: Request, error: ErrorCode) -> Reply:
        """The reply to a request that was not decided, or whose decision is lost."""

    @abstractmethod
    def _coordinator_error(self, append_error: ErrorCode) -> ErrorCode:
        """The error for clients when appending to the internal topic failed."""

    def _follow(self, decision: Decision) -> None:
        """Do what follows a durable decision, besides the replies."""

    # What all coordinators share

    def close(self) -> None:
        """Stop serving; clients that wait look for the coordinator again."""
        self.end(ErrorCode.NOT_COORDINATOR)

    def ask(self, request: Request) -> asyncio.Future[Reply]:
        """Decide now; the reply comes when the decision is durable, or later where the decision says so."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self.is_serving:
            answer.set_result(self._refusal(request, ErrorCode.NOT_COORDINATOR))
            return answer
        decision = self._decider.decide(request, self.clocks.now())
        self._unreleased[answer] = request
        self.act(decision, answer)
        return answer

    def act(self, decision: Decision, answer: asyncio.Future[Reply] | None = None) -> None:
        """Append, then release the replies when everything decided so far is durable."""
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
        """Tick when the next deadline has come; `act` calls this after every decision."""
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
        """Refuse every request whose reply was not released: this shard can no longer be trusted."""
        self.is_serving = False
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._unreleased = self._unreleased, {}
        for answer, request in waiting.items():
            if not answer.done():
                answer.set_result(self._refusal(request, error))
