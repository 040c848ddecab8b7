"""The REST server of a consumer application: HTTP with the limits of the broker's, on routes of its own.

It has no authentication: it listens on loopback unless it is told otherwise, and refuses web pages of other origins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from errno import EACCES, EADDRINUSE, EPERM
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from uvicorn.config import Config
from uvicorn.server import ServerState

from qanat.model.errors import AddressInUseError, DiskFullError, QanatError, StorageError
from qanat.servers.http.known_hosts import is_local, name_of
from qanat.servers.http.operations import SENT, Handle, Operation, Routes, read_query
from qanat.servers.http.problems import CONTENT_TYPE, Problem, problem_of
from qanat.servers.http.protocol import TICK_S, HttpProtocol, http_date, write_whole
from qanat.servers.http.reply import Reply
from qanat.servers.http.settings import HttpSettings
from qanat.telemetry.events import failure

if TYPE_CHECKING:
    from qanat.servers.http.exchange import Receive, Scope, Send
    from qanat.servers.http.inputs import Parameters

_GRACE_S = 2.0
_OPERATION_S = 30.0
_ENCODE = msgspec.json.Encoder().encode


class Asked(NamedTuple):
    """A request, as operations see it."""

    query: Any
    """The query parameters, checked."""
    path: dict[str, str]
    """The parameters of the path."""
    send: Send
    """For answers that are sent in pieces."""


def operation(
    path: str,
    handle: Callable[[Asked], Awaitable[Any]],
    summary: str,
    query: type[Parameters] | None = None,
    *,
    waits: bool = False,
) -> Operation:
    """A GET; its handler takes `Asked`. `waits` lifts the limit on its time."""
    return Operation("GET", path, cast(Handle, handle), summary, "consumer", query, waits=waits)


class RestServer:
    """Serves one address: `start` and `close`."""

    def __init__(
        self,
        operations: Iterable[Operation],
        address: tuple[str, int],
        allowed_hosts: Sequence[str],
        answered: dict[int, int],
    ) -> None:
        """`answered` counts answers by status."""
        self._host, self._port = address
        self._routes = Routes(operations)
        self._allowed_hosts = allowed_hosts
        self._answered = answered
        self._settings = HttpSettings()
        self._state = ServerState()
        self._config = Config(
            self._answer,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=round(self._settings.http_idle_timeout_ms / 1000),
            ws="none",
            interface="asgi3",
        )
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        assert self._server is not None, "started"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        """Start to answer; raises `AddressInUseError` where the address is taken."""
        self._config.load()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._protocol, self._host, self._port, backlog=1024)
        except OSError as fault:
            raise AddressInUseError(
                f"cannot serve HTTP on {self._host}:{self._port}: {fault.strerror or fault}; {_advice(fault)}"
            ) from fault
        self._tick()

    def _protocol(self) -> HttpProtocol:
        return HttpProtocol(self._config, self._state, {}, self._settings)

    def _tick(self) -> None:
        """Once a second: the date of the answers, and slow clients."""
        loop = asyncio.get_running_loop()
        self._state.default_headers = [(b"date", http_date())]
        connections: set[Any] = self._state.connections
        for connection in list(connections):
            connection.check_timeout(loop.time())
        self._ticking = loop.call_later(TICK_S, self._tick)

    async def close(self) -> None:
        """Stop accepting, let requests end for a moment, then close the connections."""
        if self._server is None:
            return
        if self._ticking is not None:
            self._ticking.cancel()
        self._server.close()
        connections: set[Any] = self._state.connections
        for connection in list(connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=_GRACE_S)
        for task in list(self._state.tasks):
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(connections):
            if connection.transport is not None:
                connection.transport.abort()
        await self._server.wait_closed()

    # Requests

    async def _answer(self, scope: Scope, _: Receive, send: Send) -> None:
        try:
            reply = await self._reply(scope, send)
        except Problem as problem:
            reply = _problem(problem, scope)
        except DiskFullError as fault:
            reply = _problem(Problem(507, str(fault)), scope)
        except StorageError as fault:
            reply = _problem(Problem(503, str(fault), headers=((b"retry-after", b"1"),)), scope)
        except QanatError as fault:
            reply = _problem(problem_of(fault.code, scope["path"], str(fault)), scope)
        except asyncio.CancelledError:
            raise
        except Exception as bug:  # noqa: BLE001 - a bug ends this request, not the application
            failure("bug while serving an HTTP request", bug, request=f"{scope['method']} {scope['path']}")
            reply = _problem(Problem(500, "this is a bug: the log of the application has the details"), scope)
        status = 200 if reply is None else reply.status
        self._answered[status] = self._answered.get(status, 0) + 1
        if reply is not None:
            headers = ((b"content-type", reply.media_type), *reply.headers)
            write_whole(scope["cycle"], reply.status, headers, reply.body)

    async def _reply(self, scope: Scope, send: Send) -> Reply | None:
        """The answer; None where it was sent."""
        found, places = self._routes.find(scope["method"], scope["path"])
        self._refuse_other_pages(dict(scope["headers"]))
        asked = Asked(read_query(found, scope["query_string"]), places, send)
        handle = cast(Callable[[Asked], Awaitable[Any]], found.handle)
        if found.waits:
            outcome = await handle(asked)
        else:
            try:
                async with asyncio.timeout(_OPERATION_S):
                    outcome = await handle(asked)
            except TimeoutError:
                raise Problem(504, f"this took longer than {_OPERATION_S:.0f} s; ask for less at a time") from None
        if outcome is SENT:
            return None
        return outcome if isinstance(outcome, Reply) else Reply(200, _ENCODE(outcome))

    def _refuse_other_pages(self, headers: dict[bytes, bytes]) -> None:
        """Refuse web pages from elsewhere: they must not read what their reader happens to reach."""
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if host is not None and not is_local(name := name_of(host)) and name not in self._allowed_hosts:
            raise Problem(
                421, f"this application is not known as {name!r}: use its address, or list it in CONSUMER_ALLOWED_HOSTS"
            )
        if origin is not None and origin.partition(b"://")[2] != host:
            raise Problem(403, "a web page of another origin asks; ask from a program of your own")


def _advice(fault: OSError) -> str:
    if fault.errno == EADDRINUSE:
        return "stop what is using it, or choose another CONSUMER_PORT"
    if fault.errno in (EACCES, EPERM):
        return "choose a CONSUMER_PORT from 1024 on"
    return "CONSUMER_HOST has to be an address of this machine"


def _problem(problem: Problem, scope: Scope) -> Reply:
    return Reply(problem.status, problem.encode(scope["path"]), CONTENT_TYPE, problem.headers)
