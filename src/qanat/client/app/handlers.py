"""Handlers as they were declared: plain values, made by the decorators of `App` and read by its workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from qanat.client.app.context import Context
from qanat.client.app.lanes import AHEAD_MAX, Order
from qanat.client.app.retry import GiveUp, Retry
from qanat.client.app.signatures import Signature
from qanat.client.errors import ClientError
from qanat.client.serializers.port import Deserializer
from qanat.model.error_codes import ErrorCode

Lock = Literal["auto", "manual"]
RunIn = Literal["thread", "process"]
Reaction = Literal["retry", "dead_letter", "skip", "pause", "stop"]
"""What an error handler may answer."""
ErrorHandler = Callable[[Exception, Context], Reaction | Awaitable[Reaction | None] | None]
HELD_MAX = 2000
"""Records that a handler of a stream holds at most, unless it is told otherwise."""


class HandlerFailedError(ClientError):
    """A handler has given up a record, and there is no dead-letter topic: the app stops, and nothing is skipped."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What all kinds of handlers have."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    topics: tuple[str, ...]
    group: str
    concurrency: int = 1
    retry: Retry = field(default_factory=Retry)
    dead_letter: str | None = None
    give_up: GiveUp = "stop"
    """What happens to a record that is given up without a dead-letter topic."""
    run_in: RunIn = "thread"
    """Where a handler runs that is no coroutine."""
    on_error: ErrorHandler | None = None
    """Decides about failures of this handler; None where that of the app does, if it has one."""
    timeout_s: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHandler(Handler):
    """A handler of `@app.stream`."""

    deserializer: Deserializer
    order: Order = "key"
    exactly_once: bool = False
    commit_every_s: float = 0.2
    held_max: int = HELD_MAX
    ahead_max: int = AHEAD_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHandler(Handler):
    """A handler of `@app.queue`."""

    deserializer: Deserializer
    lock: Lock = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHandler(Handler):
    """A handler of `@app.table_batch`."""

    rows: int = 100_000
    every_s: float = 1.0


def described(handler: Handler, topic: str, partition: int, offset: int) -> str:
    """Handler, topic, partition and offset, as every error names them."""
    return f"handler {handler.name} (group {handler.group}), {topic}-{partition} at offset {offset}"
