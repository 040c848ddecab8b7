"""ApiVersions, and requests of unknown APIs and versions."""

from __future__ import annotations

from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import APIS, ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation


@conversation
def api_versions_in_every_version(play: Play) -> None:
    for version in play.versions(ApiKey.API_VERSIONS):
        play.exchange(ApiKey.API_VERSIONS, version, ApiVersionsRequest("qanat-tests", "1.0"))


@conversation
def api_versions_from_the_future(play: Play) -> None:
    for version in (5, 99, 32767):
        connection = play.connection(f"v{version}")
        connection.send_raw(b"".join(frame_request(ApiKey.API_VERSIONS, version, 7, "tester", [b"\x00"])))
        frame = connection.frame()
        answer = frame if isinstance(frame, str) else APIS[ApiKey.API_VERSIONS].codec.read_response(frame, 0, 4)
        play.note(f"ApiVersions v{version}, answered as v0", answer)


@conversation
def api_versions_with_odd_names(play: Play) -> None:
    for name, number in [("", "1"), ("a b", "1"), ("-x", "1"), ("x", ""), ("x\r\ny", "1"), ("x" * 300, "1")]:
        request = ApiVersionsRequest(name, number)
        play.exchange(ApiKey.API_VERSIONS, 3, request, f"software {name[:9]!r} {number!r}", on=f"{name[:3]!r}{number}")


@conversation
def versions_that_are_not_served(play: Play) -> None:
    asked = [
        (ApiKey.PRODUCE, 0),
        (ApiKey.PRODUCE, 2),
        (ApiKey.FETCH, 3),
        (ApiKey.LIST_OFFSETS, 0),
        (ApiKey.METADATA, 99),
        (ApiKey.METADATA, -1),
        (ApiKey.OFFSET_COMMIT, 1),
        (ApiKey.CREATE_TOPICS, 1),
        (ApiKey.DELETE_TOPICS, 0),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 1),
    ]
    for key, version in asked:
        connection = play.connection(f"{key.name} {version}")
        connection.send_raw(b"".join(frame_request(key, version, 7, "tester", [bytes(64)])))
        answer = connection.frame()
        play.note(f"{key.name} v{version}", answer if isinstance(answer, str) else "an answer")


@conversation
def unknown_apis(play: Play) -> None:
    for key in (4, 999, -1, 32767):
        connection = play.connection(str(key))
        connection.send_raw(b"".join(frame_request(key, 0, 7, "tester", [bytes(16)])))
        answer = connection.frame()
        play.note(f"API {key} v0", answer if isinstance(answer, str) else "an answer")


@conversation
def frames_that_are_none(play: Play) -> None:
    frames = {
        "larger than allowed": b"\x7f\xff\xff\xff" + bytes(16),
        "negative": b"\xff\xff\xff\xff" + bytes(16),
        "a TLS greeting": bytes.fromhex("1603010200010001fc0303") + bytes(501),
        "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        "empty": b"\x00\x00\x00\x00",
        "shorter than a header": b"\x00\x00\x00\x05\x00\x12\x00\x00\x00",
    }
    for name, data in frames.items():
        connection = play.connection(name)
        connection.send_raw(data)
        answer = connection.frame()
        play.note(name, answer if isinstance(answer, str) else "an answer")


@conversation
def sasl_on_a_plain_listener(play: Play) -> None:
    for version in play.versions(ApiKey.SASL_HANDSHAKE):
        play.exchange(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest("PLAIN"))
    for version in play.versions(ApiKey.SASL_AUTHENTICATE):
        play.exchange(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(b"\0user\0secret"))
