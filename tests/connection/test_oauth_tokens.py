"""Tokens of a client: where they come from, when they are read, and what is never shown."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.identity_provider import JwksServer, KeyPair, provider, settings_of

from qanat.app.client.client_settings import is_secret
from qanat.connection.deadline import Deadline
from qanat.connection.faults import UnreachableError
from qanat.connection.link import Link
from qanat.connection.oauth_tokens import TokenEndpoint, TokenText
from qanat.connection.sasl import BearerDialogue, NotAuthenticatedError
from qanat.connection.security import Security, security_of
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.registry import ApiKey

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
WAIT_S = 60.0
OURS = KeyPair("ours", "ES256")


def text(value: str) -> TokenText:
    return TokenText("sasl.oauthbearer.token", value)


# Sources


def test_a_token_comes_from_the_setting_a_file_a_variable_or_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("a.b.c\n")
    path.chmod(0o600)
    monkeypatch.setenv("A_TOKEN", "d.e.f")

    assert text(" x.y.z ").read() == "x.y.z"
    assert text(f"${{file:{path}}}").read() == "a.b.c"
    assert text("${env:A_TOKEN}").read() == "d.e.f"
    assert text(f"${{command:{sys.executable} -c 'print(\"g.h.i\")'}}").read() == "g.h.i"


def test_a_file_is_read_at_every_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o600)
    source = text(f"${{file:{path}}}")
    assert source.read() == "old"
    path.write_text("new")
    assert source.read() == "new"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "has no token"),
        ("s3cret one", "has no token"),
        ("s3cret\x01auth=x", "has no token"),
        ("${env:NO_SUCH_VARIABLE}", "there is no environment variable NO_SUCH_VARIABLE"),
        ("${file:/no/such/file}", "cannot read /no/such/file: No such file"),
        ("${command:/no/such/program s3cret}", "the command /no/such/program gives no value: No such file"),
        (f"${{command:{sys.executable} -c 'print(\"s3cret\"); exit(3)'}}", "it ends with code 3"),
        (f"${{command:{sys.executable} -c 'print(\"s3cret x\")'}}", "the output of its command has no token"),
        ("${command:'}", "No closing quotation"),
    ],
)
def test_a_source_without_a_token_is_named_and_its_content_is_not_shown(value: str, reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason) as caught:
        text(value).read()
    assert "s3cret" not in str(caught.value)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a.b.c")
    path.chmod(0o644)
    with pytest.raises(InvalidSettingError, match="chmod 600"):
        text(f"${{file:{path}}}").read()


# An endpoint


@pytest.fixture
def endpoint() -> Iterator[JwksServer]:
    with JwksServer() as server:
        server.body = json.dumps({"access_token": "t.1", "token_type": "Bearer", "expires_in": 300}).encode()
        yield server


def source(endpoint: JwksServer, **more: str) -> TokenEndpoint:
    return TokenEndpoint("sasl.oauthbearer.token.endpoint.url", endpoint.url, "me: ü", "s3cret+/", **more)


def test_an_endpoint_is_asked_with_the_clients_credentials_and_its_token_is_kept(endpoint: JwksServer) -> None:
    asked = source(endpoint, scope="read write")
    assert [asked.read(), asked.read()] == ["t.1", "t.1"]
    ((authorization, form),) = endpoint.forms
    assert form == b"grant_type=client_credentials&scope=read+write"
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me%3A+%C3%BC:s3cret%2B%2F"

    assert source(endpoint).read() == "t.1"
    assert endpoint.forms[1][1] == b"grant_type=client_credentials"


@pytest.mark.parametrize("lives", [{}, {"expires_in": 0}, {"expires_in": -5}])
def test_a_token_whose_time_is_unknown_or_over_is_not_kept(endpoint: JwksServer, lives: dict[str, int]) -> None:
    endpoint.body = json.dumps({"access_token": "t.1", **lives}).encode()
    asked = source(endpoint)
    assert [asked.read(), asked.read()] == ["t.1", "t.1"]
    assert len(endpoint.forms) == 2


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b"", InvalidSettingError),
        (302, b"", InvalidSettingError),
        (503, b"", UnreachableError),
        (200, b"{}", InvalidSettingError),
        (200, b"<html>", InvalidSettingError),
        (200, b'{"access_token": 7}', InvalidSettingError),
        (200, b'{"access_token": "a b"}', InvalidSettingError),
    ],
)
def test_an_endpoint_that_gives_no_token_is_named(
    endpoint: JwksServer, status: int, body: bytes, error: type[Exception]
) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(error, match=r"token\.endpoint\.url") as caught:
        source(endpoint).read()
    assert "s3cret" not in str(caught.value)


# Settings


def test_settings_name_a_source() -> None:
    assert tokens({"sasl.oauthbearer.token": "${file:/t}"}) == text("${file:/t}")
    own = "sasl.oauthbearer."
    kafkas = {f"{own}client.credentials.client.id": "me", f"{own}client.credentials.client.secret": "s3cret"}
    librdkafkas = {f"{own}client.id": "me", f"{own}client.secret": "s3cret"}
    url = {f"{own}token.endpoint.url": "https://login.example/token", f"{own}scope": "a"}
    expected = TokenEndpoint(f"{own}token.endpoint.url", "https://login.example/token", "me", "s3cret", "a")
    assert tokens({**url, **kafkas}) == tokens({**url, **librdkafkas}) == expected


def tokens(settings: dict[str, str]) -> Any:
    security = security_of({**OAUTH, **settings})
    assert security.credentials is not None
    return security.credentials.tokens


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, r"sasl\.oauthbearer\.token is missing"),
        ({"sasl.oauthbearer.token": "t", "sasl.oauthbearer.token.endpoint.url": "https://x/"}, "say the same"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "should be a URL of https or http"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://x/"}, r"needs kafka\.sasl\.oauthbearer\.client\.credentials"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason):
        security_of({**OAUTH, **settings}, "kafka.")


def test_a_token_without_a_protocol_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"has no effect without security\.protocol"):
        security_of({"sasl.oauthbearer.token": "t"})


def test_secrets_are_never_shown_and_still_travel() -> None:
    for settings in (
        {"sasl.oauthbearer.token": "s3cret"},
        {
            "sasl.oauthbearer.token.endpoint.url": "https://x/",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "s3cret",
        },
    ):
        security = security_of({**OAUTH, **settings})
        assert "s3cret" not in repr(security)
        assert pickle.loads(pickle.dumps(security)) == security
    assert is_secret("sasl.oauthbearer.token")
    assert is_secret("sasl.oauthbearer.client.credentials.client.secret")
    assert not is_secret("sasl.oauthbearer.token.endpoint.url")


# The dialogue, and a broker


def test_a_refusal_is_acknowledged_and_never_taken_for_a_welcome() -> None:
    speaking = BearerDialogue("a.b.c")
    assert speaking.begin() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert speaking.step(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(NotAuthenticatedError):
        speaking.step(b"")
    assert BearerDialogue("a.b.c").step(b"") is None


async def opened(broker: EmbeddedBroker, security: Security) -> Link:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return await Link.open(host, int(port), "test", Deadline.after(WAIT_S), security)


def test_a_client_logs_in_with_its_token_and_renews_the_session_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(OURS.token(lives_s=100))
    path.chmod(0o600)
    security = security_of({**OAUTH, "sasl.oauthbearer.token": f"${{file:{path}}}"})

    async def ask(broker: EmbeddedBroker) -> None:
        link = await opened(broker, security)
        session = link._session
        assert session is not None
        try:
            assert session._renew_at is not None
            assert session._renew_at - time.monotonic() < 85
            path.write_text(OURS.token(lives_s=1000))
            session._renew_at = 0.0  # As if the time had come.
            answer = await link.call(ApiKey.METADATA, MetadataRequest([]), Deadline.after(WAIT_S))
            assert answer.brokers
            assert session._renew_at > time.monotonic() + 700
        finally:
            await link.close()
        assert broker.node.listener.counters.renewed == 1

    with provider(OURS) as server, EmbeddedBroker(settings=settings_of(server)) as broker:
        asyncio.run(ask(broker))


def test_a_client_with_a_wrong_token_is_told_what_to_check() -> None:
    wrong = security_of({**OAUTH, "sasl.oauthbearer.token": KeyPair("foreign", "ES256").token()})
    told = r"does not let us in: .* \(check sasl\.oauthbearer\.\*\)"
    with (
        provider(OURS) as server,
        EmbeddedBroker(settings=settings_of(server)) as broker,
        pytest.raises(NotAuthenticatedError, match=told),
    ):
        asyncio.run(opened(broker, wrong))
