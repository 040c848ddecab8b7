"""Planned faults: requests that are delayed, dropped, unanswered or refused.

A plan applies to the next so many requests of one API, from any client, in the
order in which the plans were made. It replaces the handler at the one hook that
`servers.kafka.dispatch` has for this.

Rule: the test's thread makes plans and the broker's executes them; they meet only in deques,
      whose ends are safe to use from both.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from qanat.api.api_table import SERVED, ServedApi
from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.connection import KafkaConnection

Act = Callable[[ServedApi, Any, RequestContext], Any]


@dataclass(slots=True, eq=False)
class Fault:
    """One plan. `struck` counts how often it was executed, so that a test can check that it was."""

    api: str
    what: str
    times: int
    act: Act
    struck: int = 0

    def __repr__(self) -> str:
        return f"<Fault: {self.api} {self.what}, {self.struck} of {self.times} times so far>"

    @property
    def is_over(self) -> bool:
        return self.struck >= self.times


class Faults:
    """Every plan of one broker; `intercept` goes into the dispatcher's hook."""

    def __init__(self) -> None:
        self._plans: dict[int, deque[Fault]] = {}
        self.next_handler: Act = _handled
        """Answers requests without a plan: the handler, or another interceptor."""

    def delay(self, api: str, seconds: float, times: int = 1) -> Fault:
        async def act(served: ServedApi, request: Any, context: RequestContext) -> Any:
            await asyncio.sleep(seconds)
            return await _settled(self.next_handler(served, request, context))

        return self._plan(api, f"delayed by {seconds} s", times, act)

    def drop(self, api: str, times: int = 1) -> Fault:
        def act(served: ServedApi, request: Any, context: RequestContext) -> None:
            _abort(context)

        return self._plan(api, "dropped", times, act)

    def lose_answer(self, api: str, times: int = 1) -> Fault:
        async def act(served: ServedApi, request: Any, context: RequestContext) -> None:
            await _settled(self.next_handler(served, request, context))
            _abort(context)

        return self._plan(api, "carried out, the answer lost", times, act)

    def fail(self, api: str, error: ErrorCode, times: int = 1) -> Fault:
        from qanat.testing.error_responses import error_response

        def act(served: ServedApi, request: Any, context: RequestContext) -> Any:
            return error_response(served.key, request, context, error)

        return self._plan(api, f"refused with {error.name}", times, act)

    def heal(self) -> None:
        """Remove every plan."""
        for plans in self._plans.values():
            plans.clear()

    def intercept(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        """The handler's answer, unless there is a plan for this request."""
        plans = self._plans.get(served.key)
        try:
            fault = plans.popleft() if plans else None
        except IndexError:  # Healed in between.
            fault = None
        if fault is None:
            return self.next_handler(served, request, context)
        fault.struck += 1
        return fault.act(served, request, context)

    def _plan(self, api: str, what: str, times: int, act: Act) -> Fault:
        served = _named(api)
        fault = Fault(served.api.name, what, times, act)
        self._plans.setdefault(served.key, deque()).extend([fault] * times)
        return fault


def _named(api: str) -> ServedApi:
    names = {served.api.name: served for served in SERVED.values()}
    if api not in names:
        near = get_close_matches(api, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"served are {', '.join(sorted(names))}"
        raise ValueError(f"no API {api!r} is served; {hint}")
    return names[api]


def _handled(served: ServedApi, request: Any, context: RequestContext) -> Any:
    return served.handle(request, context)


async def _settled(response: Any) -> Any:
    """The response itself, awaited where the handler returns an awaitable."""
    while isinstance(response, asyncio.Future | Coroutine):
        awaitable: Awaitable[Any] = response
        response = await awaitable
    return response


def _abort(context: RequestContext) -> None:
    """Reset the client's connection; an HTTP request has none to reset, and is not answered."""
    if isinstance(context.caller, KafkaConnection):
        context.caller.abort()
