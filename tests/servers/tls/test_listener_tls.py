"""Certificates change while the broker runs; what cannot be used changes nothing; a silent client costs little."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import uvloop
from tests.servers.tls.certificates import Authority, client_context

from qanat.app.node.file_watch import FileWatch
from qanat.model.errors import InvalidSettingError
from qanat.security.authentication import Principal
from qanat.security.certificates import read_certificate
from qanat.security.tls_settings import TlsSettings
from qanat.servers.tls.contexts import listener_context
from qanat.servers.tls.handshake import TlsHandshakes
from qanat.servers.tls.listener_tls import ListenerTls


class Echo(asyncio.Protocol):
    """Says its client's principal, then what it hears."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(f"{self._principal}\n".encode())

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@contextlib.asynccontextmanager
async def serving(tls: ListenerTls, handshake_s: float = 10.0, handshakes_max: int = 10) -> AsyncIterator[int]:
    handshakes = TlsHandshakes(tls, Echo, handshake_s=handshake_s, handshakes_max=handshakes_max)
    server = await asyncio.get_running_loop().create_server(handshakes, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await handshakes.close()


async def said(port: int, context: ssl.SSLContext, sent: bytes = b"hello") -> tuple[bytes, bytes, int]:
    """What the server says first, what it echoes, and when its certificate expires."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(sent)
        first = await reader.readline()
        echoed = await reader.readexactly(len(sent))
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return first, echoed, read_certificate(der).not_after_s
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def settings(authority: Authority, path: Path, **more: str) -> TlsSettings:
    given = {"ssl.keystore.location": str(path), "ssl.truststore.location": str(authority.trusted)}
    return TlsSettings.parse({**given, **{name.replace("_", "."): value for name, value in more.items()}})


async def test_new_connections_get_a_new_certificate_and_old_ones_go_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.client("server", "CN=one", lifetime=timedelta(days=1))
    later = authority.client("later", "CN=two", lifetime=timedelta(days=2))
    tls = ListenerTls("SSL", settings(authority, shown.both), is_identity=True)
    context = client_context(authority)
    async with serving(tls) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        await reader.readline()
        before = (await said(port, context))[2]
        assert before == tls.not_after_s

        shown.both.write_bytes(later.both.read_bytes())
        tls.reload()
        assert (await said(port, context))[2] == tls.not_after_s > before
        shown.both.write_bytes(b"-----BEGIN CERTIFICATE-----\nnonsense")
        with pytest.raises(InvalidSettingError):
            tls.reload()
        assert (await said(port, context))[2] == tls.not_after_s > before

        writer.write(b"still here")
        assert await reader.readexactly(10) == b"still here"
        writer.close()


async def test_an_authority_that_is_no_longer_trusted_lets_its_clients_in_no_more(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.trusted.read_bytes())
    given = settings(old, old.server().both, ssl_client_auth="required", ssl_truststore_location=str(trusted))
    tls = ListenerTls("SSL", given, is_identity=True)
    alice, bob = old.client("alice", "CN=alice"), new.client("bob", "CN=bob")
    async with serving(tls) as port:
        assert (await said(port, client_context(old, alice)))[0] == b"User:CN=alice\n"
        trusted.write_bytes(new.trusted.read_bytes())
        tls.reload()
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await said(port, client_context(old, alice))
        assert (await said(port, client_context(old, bob)))[0] == b"User:CN=bob\n"
    assert tls.failed_handshakes == 1


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_byte_is_lost_around_the_handshake(
    tmp_path: Path, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Of the client's first bytes, which may be there before the connection is accepted, and of those right after."""
    authority = Authority(tmp_path)
    tls = ListenerTls("SSL", settings(authority, authority.server().both), is_identity=True)
    sent = bytes(range(256)) * 400

    async def many() -> set[bytes]:
        async with serving(tls, handshakes_max=100) as port:
            outcomes = await asyncio.gather(*(said(port, client_context(authority), sent) for _ in range(20)))
        return {echoed for _, echoed, _ in outcomes}

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(many()) == {sent}
    assert tls.failed_handshakes == 0


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_client_is_told_that_its_certificate_is_refused(
    tmp_path: Path, make_loop: Callable[[], asyncio.AbstractEventLoop], version: str
) -> None:
    """By an alert, also where it has sent a request before the broker has looked at its certificate."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    tls = ListenerTls("SSL", settings(authority, authority.server().both, ssl_client_auth="required"), is_identity=True)
    eve = client_context(authority, other.client("eve", "CN=alice"))
    nobody = client_context(authority)
    for context in (eve, nobody):
        context.maximum_version = ssl.TLSVersion[version]

    async def refusals() -> list[str]:
        found = []
        async with serving(tls) as port:
            for context in (eve, nobody):
                with pytest.raises(ssl.SSLError) as raised:
                    await said(port, context, bytes(100_000))
                found.append(str(raised.value.reason))
        return found

    with asyncio.Runner(loop_factory=make_loop) as runner:
        unknown, missing = runner.run(refusals())
    assert "ALERT_UNKNOWN_CA" in unknown
    assert ("ALERT_CERTIFICATE_REQUIRED" if version == "TLSv1_3" else "ALERT_HANDSHAKE_FAILURE") in missing
    assert tls.failed_handshakes == 2


async def test_a_silent_client_is_closed_in_time_and_too_many_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = ListenerTls("SSL", settings(authority, authority.server().both), is_identity=True)
    async with serving(tls, handshake_s=0.5, handshakes_max=2) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        async with asyncio.timeout(30):
            for reader, _ in silent:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        for _, writer in silent:
            writer.close()
        assert tls.failed_handshakes == 3
        assert (await said(port, client_context(authority)))[1] == b"hello"


async def test_a_client_that_only_looks_whether_the_port_answers_is_no_failure(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = ListenerTls("SSL", settings(authority, authority.server().both), is_identity=True)
    async with serving(tls) as port:
        socket.create_connection(("127.0.0.1", port)).close()
        await said(port, client_context(authority))
    assert tls.failed_handshakes == 0


@pytest.mark.parametrize(("versions", "spoken"), [("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3")])
def test_versions_and_suites_are_limited(tmp_path: Path, versions: str, spoken: str) -> None:
    authority = Authority(tmp_path)
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,ECDHE-RSA-AES128-GCM-SHA256"
    given = settings(authority, authority.server().both, ssl_enabled_protocols=versions, ssl_cipher_suites=suite)
    context, _ = listener_context(given, asks_for_certificate=True)

    assert context.minimum_version.name.replace("_", ".") == context.maximum_version.name.replace("_", ".") == spoken
    names = {one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"ssl_cipher_suites": "TLS_NONE"}, "TLS_NONE is not known here"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "always all offered"),
        ({"ssl_keystore_location": "/nowhere.pem"}, "No such file"),
        ({"ssl_client_auth": "required", "ssl_truststore_location": "/nowhere.pem"}, "No such file"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, more: dict[str, str], reason: str) -> None:
    authority = Authority(tmp_path)
    with pytest.raises(InvalidSettingError, match=reason):
        listener_context(settings(authority, authority.server().both, **more), asks_for_certificate=True)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.server()
    shown.both.chmod(0o644)
    with pytest.raises(InvalidSettingError, match=r"ssl\.keystore\.location .* has mode 644, .*chmod 600"):
        listener_context(settings(authority, shown.both), asks_for_certificate=False)


def test_clients_with_certificates_need_a_trust_store(tmp_path: Path) -> None:
    shown = Authority(tmp_path).server()
    given = TlsSettings.parse({"ssl.keystore.location": str(shown.both), "ssl.client.auth": "requested"})
    with pytest.raises(InvalidSettingError, match=r"ssl\.client\.auth=requested needs ssl\.truststore\.location"):
        listener_context(given, asks_for_certificate=True)
    listener_context(given, asks_for_certificate=False)


async def test_a_changed_file_is_read_again_and_a_bad_one_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, read, failed = tmp_path / "file", list[str](), list[str]()
    path.write_text("one")

    def reload() -> None:
        if path.read_text() == "bad":
            raise InvalidSettingError("it is bad")
        read.append(path.read_text())

    watch = FileWatch(look_s=0.01)
    watch.watch([str(path)], reload, lambda: failed.append("bad"))
    watch.start()
    for content in ("two", "bad", "three"):
        (tmp_path / "new").write_text(content)
        (tmp_path / "new").rename(path)
        async with asyncio.timeout(30):
            while content not in (*read, *failed):  # noqa: ASYNC110 - a worker appends to them
                await asyncio.sleep(0.01)
    await watch.close()

    assert (read, failed) == (["two", "three"], ["bad"])
    assert "changed file is not used" in caplog.text
