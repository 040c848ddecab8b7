"""Open streams and waiting requests whose client loses its right or its API key: no record that comes later is sent,
and streams end without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import TIMEOUT_S, ServedNode, node_settings, served
from tests.servers.http.test_server_sent_events import Events, websocket
from wsproto.events import AcceptConnection, CloseConnection, TextMessage

from qanat.broker.replicas.parked_fetch import ParkedFetch
from qanat.broker.security.acl_entries import entry_of
from qanat.cluster import keys, values
from qanat.cluster.acls import key_of
from qanat.cluster.store import Delete, Operation, Put
from qanat.security import authorization
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.api_keys import compose, hash_of
from qanat.security.authorization import ResourceKind
from qanat.security.settings import SecuritySettings
from qanat.servers.http.streams import stream_limits, stream_writer

TOPIC = "news"
ROOT_ID, READER_ID = "0" * 16, "1" * 16
ROOT, READER = compose(ROOT_ID, "r" * 43), compose(READER_ID, "s" * 43)
RULE = entry_of(
    Acl(
        *(ResourceKind.TOPIC, TOPIC, PatternType.LITERAL, "User:reader", ANY),
        *(authorization.Operation.READ, Permission.ALLOW),
    )
)
LONG_MS = 600_000


def stored(user: str, key: str, expires_ms: int = 0) -> bytes:
    return values.encode(values.ApiKey(user=user, hash=hash_of(key), expires_ms=expires_ms))


LOSSES: dict[str, tuple[Operation, int, str]] = {
    "rule": (Delete(key_of(RULE)), 403, "topic authorization failed"),
    "key removed": (Delete(keys.api_key(READER_ID)), 401, "API key"),
    "key expired": (Put(keys.api_key(READER_ID), stored("reader", READER, expires_ms=1)), 401, "API key"),
    "key of another": (Put(keys.api_key(READER_ID), stored("other", READER)), 401, "API key"),
}
"""What takes the right, and the problem that its client sees."""


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    security = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        authorizer_class_name="StandardAuthorizer",
        super_users="User:root",
    )
    with served(replace(node_settings(), security=security)) as running:
        commit(running, Put(keys.api_key(ROOT_ID), stored("root", ROOT)))
        assert running.post("/api/v1/topics", {"name": TOPIC, "partitions": 1}, X_API_Key=ROOT).status == 201
        yield running


@pytest.fixture(autouse=True)
def _allowed(node: ServedNode) -> None:
    """The reader has its key and its rule."""
    commit(node, Put(keys.api_key(READER_ID), stored("reader", READER)), Put(key_of(RULE), values.encode(RULE)))


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without records, nothing is sent for longer than a test."""
    monkeypatch.setattr(stream_writer, "SILENCE_MS", LONG_MS)


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are not looked after: only what is sent is checked."""
    monkeypatch.setattr(stream_limits, "LOOK_S", LONG_MS / 1000)


def commit(node: ServedNode, *operations: Operation) -> None:
    assert node.run(node.node.broker.metadata.commit([], list(operations)))


def produce(node: ServedNode, value: str) -> None:
    assert node.post("/produce", {"topic": TOPIC, "value": value}, X_API_Key=ROOT).status == 200


def end_of_events(node: ServedNode, lose: Callable[[], None]) -> str:
    """The last event of a stream whose client loses its right after the first record."""
    with closing(Events(node, f"/api/v1/topics/{TOPIC}/stream", X_API_Key=READER)) as events:
        assert events.next()["event"] == "open"
        produce(node, "allowed")
        assert json.loads(events.next()["data"])["value"] == "allowed"
        lose()
        last = events.next()
        assert last["event"] == "problem"
        assert events.response.read() == b""
        return last["data"]


def end_of_websocket(node: ServedNode, lose: Callable[[], None]) -> str:
    with websocket(node, f"/api/v1/topics/{TOPIC}/ws", X_API_Key=READER) as events:
        assert isinstance(next(events), AcceptConnection)
        produce(node, "allowed")
        first = next(events)
        assert isinstance(first, TextMessage)
        assert json.loads(first.data)["value"] == "allowed"
        lose()
        last = next(events)
        assert isinstance(last, CloseConnection), last
        assert last.code == 1008
        return last.reason or ""


ENDS = {"events": end_of_events, "websocket": end_of_websocket}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("protocol", ENDS)
@pytest.mark.usefixtures("silent")
def test_a_stream_ends_with_the_right_of_its_client_though_no_record_comes(
    node: ServedNode, protocol: str, loss: str
) -> None:
    operation, _, reason = LOSSES[loss]

    assert reason in ENDS[protocol](node, lambda: commit(node, operation))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("protocol", ENDS)
@pytest.mark.usefixtures("silent", "unwatched")
def test_no_record_is_sent_after_its_client_has_lost_its_right(node: ServedNode, protocol: str, loss: str) -> None:
    operation, _, reason = LOSSES[loss]

    def lose() -> None:
        commit(node, operation)
        produce(node, "secret")

    assert reason in ENDS[protocol](node, lose)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_request_that_waits_for_records_gets_none_after_its_client_has_lost_its_right(
    node: ServedNode, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, status, _ = LOSSES[loss]
    waits, park = Event(), ParkedFetch.__init__

    def noted(fetch: ParkedFetch, *arguments: Any) -> None:
        park(fetch, *arguments)
        waits.set()

    monkeypatch.setattr(ParkedFetch, "__init__", noted)
    path = f"/consume?topic={TOPIC}&partition=0&offset=latest&timeout_ms=60000"
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(node.get, path, X_API_Key=READER)
        assert waits.wait(TIMEOUT_S)
        commit(node, operation)
        produce(node, "secret")
        answer = waiting.result()

    assert answer.status == status
    assert b"secret" not in answer.body
