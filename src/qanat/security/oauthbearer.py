"""The mechanism OAUTHBEARER (RFC 7628): a bearer token of an identity provider, in one message.

    client  n,a=alice,^Aauth=Bearer TOKEN^A^A    broker  (empty: authenticated)
                                                 broker  {"status":"invalid_token"}
    client  ^A                                   broker  refuses

What checks a token is a port (`BearerTokens`): the verdict may need a key that has to be fetched first. HTTP's
`Authorization: Bearer` asks the same one.

Rule: a client may not act as another one (`a=`), and its extensions (KIP-342) have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol, TypeAlias

from qanat.security.authentication import Accepted, Challenge, Outcome, Principal, Refused, Step
from qanat.security.scram import decoded_name

MECHANISM = "OAUTHBEARER"
LONGEST_TOKEN_BYTES = 16 * 1024
_LONGEST_MESSAGE_BYTES = LONGEST_TOKEN_BYTES + 4096
_REFUSAL = b'{"status":"invalid_token"}'
_ACKNOWLEDGED = b"\x01"
_MESSAGE = re.compile(rb"[ny],(?:a=(?P<acts_as>[^,\x01]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01")
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[A-Za-z0-9._~+/=-]+)")


class ValidToken(NamedTuple):
    """A token that names a client, and when it ends, in seconds since 1970."""

    name: str
    expires_at_s: float
    scopes: tuple[str, ...] = ()


class InvalidToken(NamedTuple):
    """The reason is for the log."""

    reason: str


TokenVerdict: TypeAlias = ValidToken | InvalidToken


class BearerTokens(Protocol):
    """What checks tokens: at once, or by a coroutine where a key has to be fetched."""

    def check(self, token: bytes) -> TokenVerdict | Coroutine[Any, Any, TokenVerdict]: ...


class OauthBearer:
    """The mechanism, for tokens that `tokens` accepts."""

    mechanism = MECHANISM

    def __init__(self, tokens: BearerTokens) -> None:
        self.tokens = tokens

    def begin(self) -> OauthDialogue:
        return OauthDialogue(self.tokens)


class OauthDialogue:
    """One step, and a second one for a client that learns why it is refused."""

    def __init__(self, tokens: BearerTokens) -> None:
        self._tokens = tokens
        self._is_refused = False

    def step(self, token: bytes) -> Outcome:
        if self._is_refused:
            return Refused("")  # The challenge before has the reason, whatever the client says to it.
        if len(token) > _LONGEST_MESSAGE_BYTES:
            return Refused("the message is too long")
        message = _MESSAGE.fullmatch(token)
        if message is None:
            return Refused("the message is not one of OAUTHBEARER without channel binding")
        values = [pair[5:] for pair in message["pairs"].split(b"\x01") if pair.startswith(b"auth=")]
        bearer = bearer_of(values[0]) if len(values) == 1 else None
        if bearer is None:
            return Refused("the message has no auth=Bearer with a token")
        acts_as = None
        if message["acts_as"] is not None:
            acts_as = decoded_name(message["acts_as"].decode("utf-8", "replace"))
            if acts_as is None:
                return Refused("the message has a malformed name")
        verdict = self._tokens.check(bearer)
        if isinstance(verdict, Coroutine):
            return self._later(verdict, acts_as)
        return self._decide(verdict, acts_as)

    async def _later(self, verdict: Coroutine[Any, Any, TokenVerdict], acts_as: str | None) -> Step:
        return self._decide(await verdict, acts_as)

    def _decide(self, verdict: TokenVerdict, acts_as: str | None) -> Step:
        if isinstance(verdict, InvalidToken):
            self._is_refused = True
            return Challenge(_REFUSAL, refusal=verdict.reason)
        if acts_as not in (None, verdict.name):
            return Refused(f"{verdict.name!r} asked to act as another principal, which is not allowed")
        return Accepted(Principal(verdict.name), expires_at_s=verdict.expires_at_s)


def bearer_of(authorization: bytes) -> bytes | None:
    """The token of `Bearer TOKEN`; None for other text."""
    found = _BEARER.fullmatch(authorization.strip())
    return None if found is None else found["token"]
