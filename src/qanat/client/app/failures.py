"""What becomes of a record after a failed attempt.

    @app.on_error
    def failed(fault: Exception, ctx: Context) -> Reaction | None:
        return "skip" if isinstance(fault, UnknownCustomer) else None

1. The error handler may decide; None leaves it to the policy.
2. The retry policy says whether and when the record is tried again.
3. What is given up goes to `dead_letter`; without that topic, `give_up` says whether the app stops, skips or pauses.

Rule: an error handler can delay a failed record, and nothing else: one that raises, answers nonsense or takes longer
      than 10 s is reported, and the policy decides.
"""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, cast, get_args

from qanat.client.app.context import Context
from qanat.client.app.handlers import ErrorHandler, Handler, Reaction, described
from qanat.telemetry.events import log_event

_REACTIONS = get_args(Reaction)
_ERROR_HANDLER_S = 10.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens next; `pause_s` is how long a retry waits."""

    reaction: Reaction
    pause_s: float = 0.0


def decide(handler: Handler, attempt: int, fault: BaseException, jitter: float, wish: Reaction | None) -> Decision:
    """The decision about a failed attempt, counted from 1. `jitter` is from 0 to 1."""
    if wish == "retry":
        return Decision("retry", handler.retry.pause_whatever_s(attempt, jitter))
    if wish is not None:
        return Decision(wish)
    pause_s = handler.retry.pause_s(attempt, fault, jitter)
    return give_up(handler) if pause_s is None else Decision("retry", pause_s)


def give_up(handler: Handler) -> Decision:
    """The decision about a record that is tried no more."""
    return Decision(handler.give_up if handler.dead_letter is None else "dead_letter")


async def wish_of(
    error_handler: ErrorHandler | None, handler: Handler, fault: Exception, context: Context
) -> Reaction | None:
    """What the error handler wants; None leaves it to the policy."""
    if error_handler is None:
        return None
    try:
        async with asyncio.timeout(_ERROR_HANDLER_S):
            wish = await _called(error_handler, fault, context)
    except TimeoutError:
        _report(handler, context, f"took longer than {_ERROR_HANDLER_S:g} s")
    except Exception as bug:  # noqa: BLE001 - user code
        _report(handler, context, f"raised {bug!r}")
    else:
        if wish is None or (wish in _REACTIONS and (wish != "dead_letter" or handler.dead_letter is not None)):
            return cast(Reaction | None, wish)
        if wish == "dead_letter":
            _report(handler, context, f"answered 'dead_letter', but {handler.name} has no dead_letter= topic")
        else:
            _report(handler, context, f"answered {wish!r:.80}, but must answer None, {', '.join(_REACTIONS)}")
    return None


async def _called(error_handler: ErrorHandler, fault: Exception, context: Context) -> Any:
    if inspect.iscoroutinefunction(error_handler):
        return await error_handler(fault, context)
    # A thread: what blocks there does not hold up other records.
    return await asyncio.get_running_loop().run_in_executor(None, copy_context().run, error_handler, fault, context)


def _report(handler: Handler, context: Context, reason: str) -> None:
    record = context.record
    log_event(
        "an error handler failed, the retry policy decides",
        level="error",
        at=described(handler, record.topic, record.partition, record.offset),
        reason=reason,
    )
