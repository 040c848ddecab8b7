"""The ASGI application: from a request to its operation, and from the outcome to the answer.

Every error is answered with a problem document. A bug of ours is as well, and goes to the log with its traceback.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from qanat.model.errors import QanatError
from qanat.servers.http.accounting import HttpAccounting
from qanat.servers.http.api_keys import authorization_of
from qanat.servers.http.caller import HttpCaller, caller_of
from qanat.servers.http.cors import permission
from qanat.servers.http.denials import with_denial
from qanat.servers.http.exchange import (
    Exchange,
    GoneError,
    Receive,
    Scope,
    Send,
    check_document,
    refuse_other_pages,
    refuse_other_sites,
)
from qanat.servers.http.inputs import decoded
from qanat.servers.http.operations import SENT, Operation, Routes, read_query
from qanat.servers.http.problems import CONTENT_TYPE, Problem, problem_of
from qanat.servers.http.protocol import write_whole
from qanat.servers.http.records.produce_fast_path import PATH, may_take_fast_path, produce_fast
from qanat.servers.http.reply import JSON, Reply
from qanat.servers.http.streams.websocket import serve_websocket
from qanat.telemetry.events import failure

if TYPE_CHECKING:
    from qanat.servers.http.context import HttpContext

_SIGN_IN = (b"www-authenticate", b'Session realm="qanat"')
_ENCODE = msgspec.json.Encoder().encode


class Application:
    """Answers every HTTP request."""

    def __init__(self, context: HttpContext, routes: Routes) -> None:
        self._context = context
        self._routes = routes
        self._accounting = HttpAccounting(context.broker, context.counters, routes.operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await serve_websocket(self._context, scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, name = perf_counter(), "none"
        caller: HttpCaller | None = None
        self._context.broker.runtime.requests_handled += 1
        try:
            if scope["path"] == PATH and may_take_fast_path(self._context, scope):
                name, caller = "produce", caller_of(scope, self._context.gateway.security)
                left = await produce_fast(self._context, caller, scope, receive)
                if isinstance(left, Reply):
                    self._send(scope, name, left, began)
                    return
                receive = left
            if self._context.origins.admit(scope):
                self._send(scope, "preflight", permission(self._routes.methods_at(scope["path"])), began)
                return
            operation, places = self._routes.find(scope["method"], scope["path"])
            name = operation.name
            caller = caller or caller_of(scope, self._context.gateway.security)
            exchange = Exchange(self._context, caller, scope, receive, send)
            if self._context.authentication.is_required:
                await self._authenticate(exchange, operation)
            refuse_other_pages(exchange)
            exchange.path = places
            outcome = await self._outcome(operation, exchange)
            if outcome is SENT:
                return
            reply = outcome if isinstance(outcome, Reply) else Reply(operation.status, _ENCODE(outcome))
        except Problem as problem:
            reply = _problem_reply(with_denial(problem, caller, name), scope)
        except GoneError:
            return
        except QanatError as fault:
            refused = problem_of(fault.code, f"{scope['method']} {scope['path']}", str(fault))
            reply = _problem_reply(with_denial(refused, caller, name), scope)
        except asyncio.CancelledError:
            raise
        except Exception as bug:  # noqa: BLE001 - a bug ends this request, not the broker
            failure("bug while serving an HTTP request", bug, request=f"{scope['method']} {scope['path']}")
            reply = _problem_reply(Problem(500, "this is a bug in the broker: its log has the details"), scope)
        self._send(scope, name, reply, began)

    async def _authenticate(self, exchange: Exchange, operation: Operation) -> None:
        """Find the caller's principal: by `Authorization`, or by the session of a browser."""
        context, caller, scope = self._context, exchange.caller, exchange.scope
        given = authorization_of(scope)
        if given is None and (session := context.sessions.find(scope)) is not None:
            refuse_other_sites(exchange, needs_origin=True)
            caller.authenticated_by(session)
            if (lost := context.authentication.lost(caller)) is not None:
                context.sessions.end(scope)
                raise lost
        elif given is not None or not operation.is_public:
            caller.authenticated(await context.authentication.authenticate(given, caller))

    def _send(self, scope: Scope, name: str, reply: Reply, began: float) -> None:
        self._accounting.answered(scope, name, reply, began)
        write_whole(scope["cycle"], reply.status, ((b"content-type", reply.media_type), *reply.headers), reply.body)

    async def _outcome(self, operation: Operation, exchange: Exchange) -> Any:
        exchange.query = read_query(operation, exchange.scope["query_string"])
        if operation.decoder is not None:
            require_json(exchange)
            body = await exchange.read_body() or b"{}"
            check_document(exchange, body)
            exchange.body = decoded(operation.decoder, body)
        elif operation.bodies:
            exchange.body = await exchange.read_body()
        if operation.waits:
            outcome = await operation.handle(exchange)
            if outcome is not SENT and (problem := self._context.authentication.lost(exchange.caller)) is not None:
                raise problem  # Its key was removed while it waited.
            return outcome
        try:
            async with asyncio.timeout(self._context.gateway.timeout_s):
                return await operation.handle(exchange)
        except TimeoutError:
            limit_ms = self._context.settings.http_request_timeout_ms
            raise Problem(
                504, f"this took longer than {limit_ms} ms (http.request.timeout.ms); it may still be done: look first"
            ) from None


def require_json(exchange: Exchange) -> None:
    """Refuse a body that is not JSON by its Content-Type."""
    if exchange.header(b"content-type") == JSON:
        return
    media_type = media_type_of(exchange)
    if media_type not in (b"", JSON) and not media_type.endswith(b"+json"):
        raise Problem(
            415,
            f"a body of type {media_type.decode('latin-1')} is not understood here: "
            "send JSON with Content-Type: application/json",
            headers=((b"accept", JSON),),
        )


def media_type_of(exchange: Exchange) -> bytes:
    """The media type of a body, without parameters."""
    given = exchange.header(b"content-type")
    return JSON if given == JSON else (given or b"").partition(b";")[0].strip().lower()


def _problem_reply(problem: Problem, scope: Scope) -> Reply:
    headers = problem.headers
    if problem.status == 401 and (b"sec-fetch-site", b"same-origin") in scope["headers"]:
        # A page of this address asks for the password itself: the browser's own window would come before it.
        headers = (*((name, value) for name, value in headers if name != b"www-authenticate"), _SIGN_IN)
    return Reply(problem.status, problem.encode(scope["path"]), CONTENT_TYPE, headers)
