"""`App`: handlers of records, declared by decorators and run by workers.

    app = App("localhost:9092")

    @app.stream("orders", group="billing", concurrency=64, retry=Retry(5, backoff="1s..5m"), dead_letter="orders.dlq")
    async def bill(order: Order, ctx: Context) -> None: ...

An app is a declaration: it connects to nothing before it runs (`app.run()`, `qanat run module:app`), and may run in
any number of processes at once.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from qanat.client.app.durations import Duration, seconds
from qanat.client.app.handlers import (
    HELD_MAX,
    BatchHandler,
    Handler,
    Lock,
    QueueHandler,
    RunIn,
    StreamHandler,
)
from qanat.client.app.health import Health
from qanat.client.app.lanes import AHEAD_MAX, Order
from qanat.client.app.retry import GiveUp, Retry, RetryPolicy
from qanat.client.app.signatures import Kind, Signature, signature_of
from qanat.client.errors import ClientError, SignatureError
from qanat.client.serializers.lookup import payload_deserializer
from qanat.model.error_codes import ErrorCode

if TYPE_CHECKING:
    from qanat.client.app.handlers import ErrorHandler
    from qanat.client.app.worker import AppWorker

E = TypeVar("E", bound="ErrorHandler")
F = TypeVar("F", bound=Callable[..., Any])
Hook = Callable[[], object]
PolicyName = Literal["EXPONENTIAL_THEN_FIXED", "SKIP_ON_ERROR", "PAUSE_ON_ERROR"]
AnyRetry = Retry | RetryPolicy | PolicyName
Lifespan = Callable[[], AbstractAsyncContextManager[object]]

_GRACE = "30s"


class AppError(ClientError):
    """An app is declared or used in a way that cannot work."""

    code = ErrorCode.INVALID_REQUEST


class App:
    """Handlers of records, and how to run them."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | Mapping[str, object] | None = None,
        *,
        name: str = "",
        grace: Duration = _GRACE,
        lifespan: Lifespan | None = None,
        health_port: int | None = None,
        **settings: Any,
    ) -> None:
        """Without servers, the app connects to `QANAT_BOOTSTRAP_SERVERS`, which a broker sets for the handlers that it
        runs, or to localhost:9092. `settings` are those of every consumer and producer of the app; `grace` is how long
        a stop may take, and `health_port` serves /health and /metrics."""
        if bootstrap_servers is None:
            bootstrap_servers = os.environ.get("QANAT_BOOTSTRAP_SERVERS", "localhost:9092")
        self.bootstrap_servers: str | Sequence[str] | Mapping[str, object] = bootstrap_servers
        self.name = name
        """The group of handlers that name none."""
        self.grace_s = seconds(grace)
        self.lifespan = lifespan
        self.health_port = health_port
        self.settings = settings
        self.handlers: list[Handler] = []
        self.start_hooks: list[Hook] = []
        self.stop_hooks: list[Hook] = []
        self.error_handler: ErrorHandler | None = None
        self._workers: list[AppWorker] = []

    def __repr__(self) -> str:
        return f"<App {self.name or self.bootstrap_servers!r} with {len(self.handlers)} handlers>"

    # Declarations

    def stream(
        self,
        *topics: str,
        group: str = "",
        concurrency: int = 1,
        order: Order = "key",
        retry: AnyRetry | None = None,
        dead_letter: str | None = None,
        give_up: GiveUp | None = None,
        on_error: ErrorHandler | None = None,
        exactly_once: bool = False,
        run_in: RunIn = "thread",
        timeout: Duration | None = None,
        commit_every: Duration = "200ms",
        held: int = HELD_MAX,
        ahead: int = AHEAD_MAX,
        **settings: Any,
    ) -> Callable[[F], F]:
        """Handle the records of topics, as a member of a consumer group.

        Records of one key (`order="key"`), of one partition, or none run one after another; at most `concurrency` run
        at once. A failed record is tried again by `retry`, which blocks its key only, and then goes to `dead_letter`;
        without that topic, the app stops (`give_up="stop"`), goes on (`"skip"`), or pauses the partition (`"pause"`).
        `retry` may name a `RetryPolicy`, and `on_error` decides before it. With `exactly_once`, what a handler
        returns is written in the transaction that commits the record.
        """
        names = _names_there()

        def declare(function: F) -> F:
            signature = signature_of(function, "stream", names)
            _check_choice(function.__name__, "order", order, Order)
            handler = StreamHandler(
                **self._common(
                    function, signature, "stream", topics, group, concurrency, retry, dead_letter, give_up, on_error,
                    run_in, timeout, settings,
                ),
                deserializer=payload_deserializer(signature.payload),
                order=order,
                exactly_once=exactly_once,
                commit_every_s=seconds(commit_every),
                held_max=max(held, concurrency),
                ahead_max=min(ahead, held * 10) if exactly_once else ahead,
            )  # fmt: skip
            self.handlers.append(handler)
            return function

        return declare

    def queue(
        self,
        *topics: str,
        group: str = "",
        concurrency: int = 1,
        lock: Lock = "auto",
        retry: AnyRetry | None = None,
        dead_letter: str | None = None,
        on_error: ErrorHandler | None = None,
        run_in: RunIn = "thread",
        timeout: Duration | None = None,
        **settings: Any,
    ) -> Callable[[F], F]:
        """Handle the records of topics as a queue (a share group): each is locked for one worker, in no order.

        With `lock="auto"` the lock is renewed while the handler runs. A failed record is released after a pause; when
        it is given up, it goes to `dead_letter`, or is rejected, which leaves it to the broker's dead-letter topic.
        """
        names = _names_there()

        def declare(function: F) -> F:
            signature = signature_of(function, "queue", names)
            _check_choice(function.__name__, "lock", lock, Lock)
            handler = QueueHandler(
                **self._common(
                    function, signature, "queue", topics, group, concurrency, retry or Retry(5), dead_letter,
                    None, on_error, run_in, timeout, settings,
                ),
                deserializer=payload_deserializer(signature.payload),
                lock=lock,
            )  # fmt: skip
            self.handlers.append(handler)
            return function

        return declare

    def table_batch(
        self,
        *topics: str,
        group: str = "",
        rows: int = 100_000,
        every: Duration = "1s",
        retry: AnyRetry | None = None,
        run_in: RunIn = "thread",
        timeout: Duration | None = None,
        **settings: Any,
    ) -> Callable[[F], F]:
        """Handle records as Arrow batches of at most `rows` rows, at least `every` so often while there are any.

        A batch is committed when the handler returned; a failed one is tried again, whole, before the next.
        """
        names = _names_there()

        def declare(function: F) -> F:
            signature = signature_of(function, "table_batch", names)
            _check_least(function.__name__, "rows", rows)
            handler = BatchHandler(
                **self._common(
                    function,
                    signature,
                    "table_batch",
                    topics,
                    group,
                    1,
                    retry,
                    None,
                    None,
                    None,
                    run_in,
                    timeout,
                    settings,
                ),
                rows=rows,
                every_s=seconds(every),
            )
            self.handlers.append(handler)
            return function

        return declare

    def _common(
        self,
        function: Callable[..., Any],
        signature: Signature,
        kind: Kind,
        topics: tuple[str, ...],
        group: str,
        concurrency: int,
        retry: AnyRetry | None,
        dead_letter: str | None,
        give_up: GiveUp | None,
        on_error: ErrorHandler | None,
        run_in: RunIn,
        timeout: Duration | None,
        settings: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What all kinds of handlers have, checked."""
        name = function.__name__
        if not topics or not all(isinstance(topic, str) and topic for topic in topics):
            raise AppError(f'@app.{kind} of {name} names no topic: write @app.{kind}("orders")')
        group = group or self.name or name
        if any(one.group == group and one.topics == topics for one in self.handlers):
            raise AppError(
                f"two handlers read {', '.join(topics)} in the group {group}: give {name} a group of its own"
            )
        _check_least(name, "concurrency", concurrency)
        retry, give_up = _policy(name, retry, give_up, dead_letter, "skip" if kind == "queue" else "stop")
        _check_choice(name, "run_in", run_in, RunIn)
        if run_in == "process" and signature.is_async:
            raise SignatureError(f"{name} is a coroutine and cannot run in a process: write `def`, or leave run_in out")
        return {
            "name": name,
            "function": function,
            "signature": signature,
            "topics": topics,
            "group": group,
            "concurrency": concurrency,
            "retry": retry,
            "dead_letter": dead_letter,
            "give_up": give_up,
            "on_error": None if on_error is None else _checked_error_handler(on_error),
            "run_in": run_in,
            "timeout_s": None if timeout is None else seconds(timeout),
            "settings": settings,
        }

    def on_start(self, function: F) -> F:
        """Call a function, or await a coroutine function, before the first record."""
        self.start_hooks.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Call a function, or await a coroutine function, after the last record."""
        self.stop_hooks.append(function)
        return function

    def on_error(self, function: E) -> E:
        """Let a function, or a coroutine function, decide about failures, as `client.app.failures` describes."""
        if self.error_handler is not None:
            raise AppError(f"{function.__name__} is a second @app.on_error; on_error= gives a handler one of its own")
        self.error_handler = _checked_error_handler(function)
        return function

    # Running

    async def serve(self, *, has_signals: bool = False) -> None:
        """Run on this event loop until `stop`, or with `has_signals` until SIGTERM or SIGINT."""
        from qanat.client.app.worker import AppWorker

        if not self.handlers:
            raise AppError("this app has no handler: declare one, as in @app.stream('orders')")
        await self.serve_worker(AppWorker(self), has_signals=has_signals)

    async def serve_worker(self, worker: AppWorker, *, has_signals: bool = False) -> None:
        """Run a given worker: tests have several of one app."""
        self._workers.append(worker)
        try:
            await worker.run(has_signals=has_signals)
        finally:
            self.forget_worker(worker)

    def forget_worker(self, worker: AppWorker) -> None:
        """A worker has ended: it no longer counts for health and metrics."""
        if worker in self._workers:
            self._workers.remove(worker)

    def run(self) -> None:
        """Run in this process until SIGTERM or SIGINT. A thread that still blocks after the grace is left behind."""
        from qanat.client.app.daemon_threads import run_without_waiting

        with suppress(KeyboardInterrupt):
            run_without_waiting(self.serve(has_signals=True))

    def stop(self) -> None:
        """Stop as SIGTERM does: finish what runs, commit, leave. From any thread; a second call does not wait."""
        for worker in list(self._workers):
            worker.stop()

    def resume(self, handler: str = "") -> None:
        """Go on where handlers have paused, with the record that failed. From any thread."""
        if handler and all(one.name != handler for one in self.handlers):
            raise AppError(f"there is no handler {handler!r}; there are {', '.join(one.name for one in self.handlers)}")
        for worker in list(self._workers):
            worker.resume(handler)

    # Observation

    def health(self) -> Health:
        """Whether all handlers of this process make progress, and if not, why."""
        if not self._workers:
            return Health(False, ("the app does not run",))
        found = [worker.health() for worker in self._workers]
        return Health(all(found), tuple(reason for one in found for reason in one.reasons))

    def metrics(self) -> str:
        """Metrics of all handlers and of what they send, as Prometheus' text."""
        from qanat.client.app.metrics import exposition

        counters = [one for worker in self._workers for one in worker.counters()]
        return exposition(counters, [worker.produced for worker in self._workers])


def _check_choice(name: str, option: str, given: object, choices: object) -> None:
    if given not in get_args(choices):
        raise AppError(f"{option} of {name} is {given!r}, but must be one of {', '.join(get_args(choices))}")


def _check_least(name: str, option: str, given: int) -> None:
    if given < 1:
        raise AppError(f"{option} of {name} is {given}, but must be at least 1")


def _policy(
    name: str, given: AnyRetry | None, give_up: GiveUp | None, dead_letter: str | None, usual: GiveUp
) -> tuple[Retry, GiveUp]:
    """Retries, and what becomes of a record that is given up without a dead-letter topic."""
    if isinstance(given, str) and given in get_args(PolicyName):
        given = RetryPolicy(given)
    if give_up is not None:
        _check_choice(name, "give_up", give_up, GiveUp)
    if (give_up == "pause" or given is RetryPolicy.PAUSE_ON_ERROR) and dead_letter is not None:
        raise AppError(f"{name} pauses on errors and has dead_letter={dead_letter!r}: leave out one of them")
    if isinstance(given, RetryPolicy):
        if give_up is not None and given.give_up not in (None, give_up):
            raise AppError(f"{name} has retry={given.name} and give_up={give_up!r}: leave out give_up")
        return given.retry, give_up or given.give_up or usual
    if given is not None and not isinstance(given, Retry):
        raise AppError(
            f'retry of {name} is {given!r}, but must be a Retry, as in retry=Retry(5, backoff="1s..5m"), or one of '
            f"{', '.join(get_args(PolicyName))}"
        )
    return given or Retry(), give_up or usual


def _checked_error_handler(function: ErrorHandler) -> ErrorHandler:
    """An error handler that can be called with an exception and a context."""
    name = getattr(function, "__name__", repr(function))
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise SignatureError(
            f"{name} handles errors, but does not take two arguments: write def {name}(fault: Exception, ctx: Context)"
        ) from None
    return function


def _names_there() -> dict[str, Any]:
    """The local names where a decorator stands: annotations may use them."""
    frame = sys._getframe(2)
    return {} if frame.f_code.co_name == "<module>" else dict(frame.f_locals)
