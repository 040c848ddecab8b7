"""Every port that secured brokers open, tried by a stranger: no API but those of a login, no HTTP but its public pages.

The ports are those that the kernel lists for the processes, so that a port that is added later is tried as well.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.app.cluster.test_up import _base_port
from tests.app.processes import clean_environment
from tests.servers.kafka.raw import RawClient

from qanat.api.api_table import SERVED
from qanat.app import main
from qanat.app.cluster.cluster_plan import INTER_BROKER_OFFSET
from qanat.servers.http.operation_table import OPERATIONS
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

TIMEOUT_S = 120
LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
CONSOLE = {"/console", "/console/", "/console/{file}", "/console/screens/{file}", "/console/vendor/{file}"}
"""The page and its files, which say nothing of the cluster; and signing in."""
PUBLIC = {
    *("/openapi.json", "/docs", "/health", "/health/live", "/health/ready", "/health/restartable"),
    *CONSOLE,
    "/api/v1/session",
}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}


@dataclass(frozen=True)
class Brokers:
    """The ports of two workers, and how a stranger reaches them: it trusts their authority, and has no certificate."""

    kafka: list[int]
    http: list[int]
    metrics: list[int]
    tls: ssl.SSLContext
    certificate: Path
    """That of the brokers, with its key."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder, port = tmp_path_factory.mktemp("strangers"), _base_port()
    assert main.run(["secure", "init", "--data-dir", str(folder / "data"), "--port", str(port)]) == 0
    security = folder / "data" / "security"
    settings = [
        f"bootstrap.port={port + 20}",
        f"http.port={port + 10}",
        "metrics.port=0",
        "metrics.security.protocol=SSL",
        "listener.name.metrics.ssl.client.auth=required",
    ]
    words = ["start", "--workers", "2", "--config", str(security / "broker.yaml")]
    words += [word for one in settings for word in ("-X", one)]
    known = [port, port + 1, port + INTER_BROKER_OFFSET, port + INTER_BROKER_OFFSET + 1, port + 20]
    with started(folder, words) as pids:
        opened = set().union(*map(ports_of, pids))
        tls = ssl.create_default_context(cafile=str(security / "authority.pem"))
        served = [port + 10, port + 11]
        assert opened >= {*known, *served}
        yield Brokers(known, served, sorted(opened - {*known, *served}), tls, security / "broker.pem")


@contextmanager
def started(folder: Path, words: list[str]) -> Iterator[list[int]]:
    """The processes of `qanat start`, with their children."""
    command, environment = [sys.executable, "-m", "qanat.app", *words], clean_environment()
    environment.pop("QANAT_HTTP_PORT")
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while "  data " not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield [process.pid, *map(int, children)]
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()


def ports_of(pid: int) -> set[int]:
    """The TCP ports that a process listens on."""
    sockets = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                found.add(int(local.rpartition(":")[2], 16))
    return found


def test_the_brokers_open_no_port_that_is_not_tried(brokers: Brokers) -> None:
    assert len(brokers.metrics) == 2, "one for each broker"


def bytes_after(port: int, tls: ssl.SSLContext | None, *frames: bytes) -> bytes:
    """What a port sends to a client that sends this, until it closes the connection."""
    received = b""
    plain = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    with ExitStack() as opened, suppress(ConnectionError, ssl.SSLError):
        opened.enter_context(plain)
        stream = plain
        if tls is not None:
            stream = opened.enter_context(tls.wrap_socket(plain, server_hostname="127.0.0.1"))
        for frame in frames:
            stream.sendall(frame)
        while more := stream.recv(65536):
            received += more
    return received


def request(key: int, version: int) -> bytes:
    """A request whose header says enough: nothing behind it is to be read."""
    return b"".join(frame_request(key, version, 1, "stranger", [bytes(64)]))


@pytest.mark.parametrize("index", range(5), ids=["client-0", "client-1", "broker-0", "broker-1", "bootstrap"])
def test_a_kafka_port_serves_a_stranger_no_api_but_those_of_a_login(brokers: Brokers, index: int) -> None:
    port = brokers.kafka[index]
    answered = {
        (served.api.name, version)
        for key, served in SERVED.items()
        for version in {served.first_version, served.last_version}
        if key not in LOGIN and bytes_after(port, brokers.tls, request(key, version))
    }
    assert answered == set()

    with RawClient(f"127.0.0.1:{port}", brokers.tls) as client:
        offered = client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("stranger", "1"))
        assert {one.api_key for one in offered.api_keys} >= {*LOGIN}
        mechanisms = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("SCRAM-SHA-512")).mechanisms
        assert set(mechanisms) <= {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
        client.send_bytes(request(ApiKey.METADATA, 12))
        with pytest.raises((EOFError, ConnectionError)):
            client.receive_bytes()


def test_a_kafka_port_answers_nothing_without_tls(brokers: Brokers) -> None:
    for port in brokers.kafka:
        for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FETCH, ApiKey.PRODUCE):
            # At most an alert of TLS, which is seven bytes.
            assert len(bytes_after(port, None, request(key, SERVED[key].last_version))) <= 7


def status_and_body(brokers: Brokers, port: int, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=brokers.tls)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_every_http_operation_needs_authentication_or_is_public(brokers: Brokers) -> None:
    open_ones = set()
    for operation in OPERATIONS:
        path = operation.path.replace("{", "").replace("}", "")
        headers = UPGRADE if path.endswith("/ws") else {}
        status, body = status_and_body(brokers, brokers.http[0], operation.method, path, headers)
        if status != 401:
            open_ones.add(operation.path)
        else:
            assert b"authentication is needed" in body
    assert open_ones == PUBLIC

    for port in brokers.http:
        for path in ("/health", "/health/ready"):
            _, body = status_and_body(brokers, port, "GET", path, {})
            assert json.loads(body).keys() == {"status", "live", "ready"}
        _, body = status_and_body(brokers, port, "GET", "/health/restartable", {})
        assert json.loads(body).keys() == {"restartable"}


def test_metrics_answer_only_to_a_certificate(brokers: Brokers) -> None:
    asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    known = ssl.create_default_context(cafile=str(brokers.certificate.with_name("authority.pem")))
    known.load_cert_chain(brokers.certificate)
    for port in brokers.metrics:
        assert bytes_after(port, brokers.tls, asked) == b""
        assert b"qanat_" not in bytes_after(port, None, asked)
        assert b"qanat_" in bytes_after(port, known, asked)


def test_no_http_is_served_without_tls(brokers: Brokers) -> None:
    for port in brokers.http:
        assert b"HTTP/" not in bytes_after(port, None, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
