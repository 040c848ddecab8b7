"""The messages of OAUTHBEARER: what a client may send, and what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from qanat.security.authentication import Accepted, Challenge, Outcome, Principal, Refused, Step
from qanat.security.oauthbearer import InvalidToken, OauthBearer, TokenVerdict, ValidToken, bearer_of
from qanat.security.sasl_exchange import SaslExchange, Stage

ACCEPTED = Accepted(Principal("alice"), expires_at_s=500.0)


class OneToken:
    """Knows one token, and keeps those that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def check(self, token: bytes) -> TokenVerdict:
        self.asked.append(token)
        return ValidToken("alice", 500.0) if token == b"a.b.c" else InvalidToken("it is another one")


class SlowToken(OneToken):
    """The same after a wait."""

    def check(self, token: bytes) -> Coroutine[None, None, TokenVerdict]:  # type: ignore[override]
        async def later() -> TokenVerdict:
            await asyncio.sleep(0)
            return OneToken.check(self, token)

        return later()


def stepped(message: bytes) -> Outcome:
    return OauthBearer(OneToken()).begin().step(message)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer a.b.c\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=alice,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=alic=65,\x01auth=bearer   a.b.c\x01\x01".replace(b"=65", b"e"),
        b"n,,\x01host=broker\x01port=9092\x01auth=Bearer a.b.c\x01traceId=7\x01\x01",
    ],
)
def test_a_token_lets_in_for_as_long_as_it_lasts(message: bytes) -> None:
    assert stepped(message) == ACCEPTED


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a.b.c d\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.\xc3\xa9\x01\x01",
        b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=al=ice,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01x=" + b"y" * 30_000 + b"\x01\x01",
    ],
)
def test_another_message_is_refused_at_once(message: bytes) -> None:
    assert isinstance(stepped(message), Refused)


def test_a_wrong_token_is_answered_in_json_and_refused_when_the_client_has_seen_it() -> None:
    tokens = OneToken()
    dialogue = OauthBearer(tokens).begin()
    answer = dialogue.step(b"n,,\x01auth=Bearer x.y.z\x01\x01")

    assert answer == Challenge(b'{"status":"invalid_token"}', refusal="it is another one")
    assert dialogue.step(b"\x01") == Refused("")


def test_a_refused_client_cannot_try_again_in_the_same_exchange() -> None:
    tokens = OneToken()
    dialogue = OauthBearer(tokens).begin()
    dialogue.step(b"n,,\x01auth=Bearer x.y.z\x01\x01")

    assert dialogue.step(b"n,,\x01auth=Bearer a.b.c\x01\x01") == Refused("")
    assert tokens.asked == [b"x.y.z"]


def test_an_exchange_waits_for_a_verdict_that_takes_time() -> None:
    exchange = SaslExchange({"OAUTHBEARER": OauthBearer(SlowToken())})
    assert exchange.choose("OAUTHBEARER", tokens_are_bare=False)
    outcome = exchange.step(b"n,,\x01auth=Bearer a.b.c\x01\x01")
    assert isinstance(outcome, Coroutine)
    assert exchange.stage is Stage.IN_REQUESTS

    async def awaited() -> Step:
        return await outcome

    assert asyncio.run(awaited()) == ACCEPTED
    assert exchange.is_authenticated
    assert exchange.lifetime_ms(200.0) == 300_000
    assert exchange.lifetime_ms(500.0) == 1


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (b"Bearer a.b-_~+/c==", b"a.b-_~+/c=="),
        (b"bearer  x", b"x"),
        (b"Bearer", None),
        (b"Bearer a b", None),
        (b"Basic eA==", None),
        (b"Bearer a,b", None),
    ],
)
def test_the_token_of_an_authorization(header: bytes, token: bytes | None) -> None:
    assert bearer_of(header) == token
