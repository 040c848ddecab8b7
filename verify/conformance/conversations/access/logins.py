"""SaslHandshake and SaslAuthenticate on a listener that requires them: in order, out of order, with wrong passwords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import UNAUTHENTICATED, Play
from verify.conformance.script import secured_conversation
from verify.conformance.users import PASSWORD

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
GOOD = f"\0literal\0{PASSWORD}".encode()
TOKENS = {
    "a good one": GOOD,
    "as oneself": f"literal\0literal\0{PASSWORD}".encode(),
    "as another": f"root\0literal\0{PASSWORD}".encode(),
    "a wrong password": b"\0literal\0wrong",
    "no such user": f"\0nobody\0{PASSWORD}".encode(),
    "no user": f"\0\0{PASSWORD}".encode(),
    "no password": b"\0literal\0",
    "nothing": b"",
    "one part": b"literal",
    "four parts": f"\0literal\0{PASSWORD}\0".encode(),
    "no text": b"\0\xff\xfe\0\xff",
}


def _on(play: Play, number: int) -> tuple[str, Callable[..., Any]]:
    """A connection of nobody yet, and how to ask on it."""
    on = f"{UNAUTHENTICATED} {number}"
    return on, lambda key, version, request, note="": play.exchange(key, version, request, note, on)


@secured_conversation
def logins_in_every_version(play: Play) -> None:
    number = 0
    for version in play.versions(AUTHENTICATE):
        for what, token in TOKENS.items():
            number += 1
            on, ask = _on(play, number)
            ask(HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            answer = ask(AUTHENTICATE, version, SaslAuthenticateRequest(token), what)
            if isinstance(answer, str) or answer.error_code:
                continue
            ask(ApiKey.METADATA, 12, MetadataRequest([], False), what)
            play.disconnect(on)


@secured_conversation
def logins_out_of_order(play: Play) -> None:
    plain, token = SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest(GOOD)
    orders: dict[str, list[tuple[ApiKey, int, Any]]] = {
        "a request first": [(ApiKey.METADATA, 12, MetadataRequest([], False))],
        "a password first": [(AUTHENTICATE, 1, token)],
        "two handshakes": [(HANDSHAKE, 1, plain), (HANDSHAKE, 1, plain)],
        "a request between": [(HANDSHAKE, 1, plain), (ApiKey.METADATA, 12, MetadataRequest([], False))],
        "no such mechanism": [(HANDSHAKE, 1, SaslHandshakeRequest("GSSAPI"))],
        "no such mechanism, old": [(HANDSHAKE, 0, SaslHandshakeRequest("")), (HANDSHAKE, 0, plain)],
        "versions between": [(HANDSHAKE, 1, plain), (ApiKey.API_VERSIONS, 0, ApiVersionsRequest())],
    }
    for number, (what, requests) in enumerate(orders.items()):
        on, ask = _on(play, number)
        for key, version, request in requests:
            if isinstance(ask(key, version, request, what), str):
                break
        else:
            play.disconnect(on)
