"""SASL authentication of a link, and its renewal where the broker limits its lifetime (KIP-368)."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any, Protocol

from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError, check, refused
from qanat.connection.sasl import BearerDialogue, Dialogue, NotAuthenticatedError, dialogue
from qanat.connection.security import Credentials
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from qanat.wire.kafka.registry import ApiKey

_RENEWED_AFTER = 0.85
"""The part of its lifetime after which an authentication is renewed."""
_NONCE_BYTES = 18


class Requests(Protocol):
    """The link that is authenticated."""

    @property
    def address(self) -> str: ...

    async def call_without_session(
        self, api_key: ApiKey, request: Any, deadline: Deadline, *, at_most: int | None = None
    ) -> Any: ...


class SaslSession:
    """The authentication of one connection."""

    def __init__(self, link: Requests, credentials: Credentials) -> None:
        self._link = link
        self._credentials = credentials
        self._renew_at: float | None = None
        self._renewing = asyncio.Lock()

    async def begin(self, deadline: Deadline) -> None:
        """Authenticate; raises `NotAuthenticatedError` where the broker refuses."""
        who, where = self._credentials, self._link.address
        speaking = await self._dialogue(deadline)
        await self._choose(deadline)
        token: bytes | None = speaking.begin()
        lifetime_ms = 0
        while token is not None:
            answer = await self._say(token, deadline)
            lifetime_ms = getattr(answer, "session_lifetime_ms", 0)
            try:
                token = speaking.step(bytes(answer.auth_bytes))
            except NotAuthenticatedError as fault:
                raise NotAuthenticatedError(f"{where}, asked to let {who.who} in: {fault}") from None
        self._renew_at = time.monotonic() + _RENEWED_AFTER * lifetime_ms / 1000 if lifetime_ms > 0 else None

    async def _dialogue(self, deadline: Deadline) -> Dialogue:
        who = self._credentials
        if who.tokens is None:
            return dialogue(who.mechanism, who.username, who.password, secrets.token_urlsafe(_NONCE_BYTES))
        return BearerDialogue(await deadline.bound(asyncio.to_thread(who.tokens.read), "a token"))

    async def renew(self, deadline: Deadline) -> None:
        """Renew the authentication before it expires; other requests wait meanwhile."""
        if not self._is_ageing():
            return
        async with self._renewing:
            if self._is_ageing():
                await self.begin(deadline)

    def _is_ageing(self) -> bool:
        return self._renew_at is not None and time.monotonic() >= self._renew_at

    async def _choose(self, deadline: Deadline) -> None:
        mechanism, where = self._credentials.mechanism, self._link.address
        response: SaslHandshakeResponse = await self._link.call_without_session(
            ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism), deadline
        )
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            raise NotAuthenticatedError(f"{where} does not offer sasl.mechanism {mechanism}; it offers {offered}")
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise NotAuthenticatedError(
                f"{where} does not ask who we are: security.protocol should be PLAINTEXT or SSL there"
            )
        check(f"{where}, asked for sasl.mechanism {mechanism}", response.error_code)

    async def _say(self, token: bytes, deadline: Deadline) -> SaslAuthenticateResponse:
        where, who = self._link.address, self._credentials.who
        response: SaslAuthenticateResponse = await self._link.call_without_session(
            ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(token), deadline
        )
        if response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            reason = response.error_message or "authentication failed"
            wrong = "sasl.username, sasl.password" if self._credentials.tokens is None else "sasl.oauthbearer.*"
            raise NotAuthenticatedError(f"{where} does not let {who} in: {reason} (check {wrong})")
        if response.error_code != ErrorCode.NONE:
            fault: RefusedError = refused(
                f"{where}, asked to let {who} in", response.error_code, response.error_message
            )
            raise fault
        return response
