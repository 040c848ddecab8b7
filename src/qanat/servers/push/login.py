"""How a push client authenticates: SASL tokens in HEARTBEAT, answers in ACK.

A session with an end is renewed by another exchange: as the same user, by the same mechanism (`SaslExchange.renewal`).

Rule: whatever comes before authentication takes no more memory than its frame. Of a HEARTBEAT nothing else is read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Protocol

from qanat.edge.push_dialogue import WrongFrameError
from qanat.security.authentication import Accepted, Refused, Step
from qanat.security.sasl_exchange import SaslExchange, Stage
from qanat.wire.push.control import FEATURES, VERSION, Ack, Heartbeat, Login, encode_control
from qanat.wire.push.frames import FrameType

if TYPE_CHECKING:
    from qanat.security.authentication import Principal
    from qanat.servers.login_guard import LoginGuard
    from qanat.servers.push.ports import PushHost

_REFUSAL_DELAY_S = 0.1
_FAILED = "Authentication failed: invalid credentials"


class LoginClient(Protocol):
    """The connection, as its login sees it."""

    host: str
    peer: str
    session_end_ms: int | None

    @property
    def server(self) -> PushHost: ...

    def send(self, frame_type: int, frame_id: int, payload: bytes = b"") -> None: ...

    def end(self, reason: str, message: str) -> None: ...

    def authenticated(self, principal: Principal, lifetime_ms: int) -> None:
        """The client is who it says, for so long; 0 has no end."""


class PushLogin:
    """The authentication of one connection, to a listener that asks for it."""

    __slots__ = ("_client", "_exchange", "_guard")

    def __init__(self, client: LoginClient, exchange: SaslExchange, guard: LoginGuard | None) -> None:
        self._client = client
        self._exchange = exchange
        self._guard = guard

    async def take(self, frame_id: int, said: Heartbeat | Login) -> None:
        """Take a step: the client's token is answered by the broker's, or ends the connection."""
        exchange = self._begun(said.mechanism)
        try:
            token = base64.b64decode(said.token or "", validate=True)
        except (binascii.Error, ValueError):
            raise WrongFrameError("malformed", "a token is base64") from None
        step = await self._step(exchange, token)
        if isinstance(step, Refused):
            self._client.server.note_refused(self._client, step.reason)
            await asyncio.sleep(_REFUSAL_DELAY_S)
            self._client.end("authentication-failed", step.message or _FAILED)
            return
        is_done = isinstance(step, Accepted)
        lifetime_ms = exchange.lifetime_ms(time.time()) if is_done else 0
        if is_done:
            assert exchange.principal is not None, "authenticated"
            self._client.authenticated(exchange.principal, lifetime_ms)
        answer = Ack(
            token=base64.b64encode(step.token).decode(),
            is_authenticated=is_done,
            lifetime_ms=lifetime_ms,
            v=VERSION,
            features=list(FEATURES),
        )
        self._client.send(FrameType.ACK, frame_id, encode_control(answer))

    def _begun(self, mechanism: str) -> SaslExchange:
        """The exchange that a token belongs to; a mechanism begins it."""
        if self._exchange.is_authenticated:
            if self._client.session_end_ms is None:
                raise WrongFrameError("no-authentication", "this session has no end; there is nothing to renew")
            self._exchange = self._exchange.renewal()
        exchange = self._exchange
        if not mechanism:
            if exchange.stage is Stage.UNAUTHENTICATED:
                raise WrongFrameError("wrong-order", "the first token comes with the name of its mechanism")
        elif exchange.stage is not Stage.UNAUTHENTICATED:
            raise WrongFrameError("wrong-order", "the mechanism is named once, with the first token")
        elif not exchange.choose(mechanism, tokens_are_bare=False):
            offered = ", ".join(exchange.mechanisms)
            raise WrongFrameError("unknown-mechanism", f"{mechanism} is not offered; offered are {offered}")
        return exchange

    async def _step(self, exchange: SaslExchange, token: bytes) -> Step:
        guard = self._guard
        if guard is not None:
            exchange.note_claim(token)
            if (limited := guard.refusal(self._client, exchange.claimed_name)) is not None:
                return exchange.refuse(limited)
        outcome = exchange.step(token)
        step = await outcome if isinstance(outcome, Coroutine) else outcome
        if guard is not None:
            guard.note(self._client, exchange.claimed_name, step)
        return step
