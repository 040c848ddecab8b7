"""Every HTTP operation against every kind of rule: a new operation without a row fails."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.servers.http.serving import TIMEOUT_S, Answer, ServedNode, node_settings, served
from tests.servers.kafka.raw import RawClient
from tests.servers.permission_scenarios import Image, Recorder, scenarios

from qanat.api.interceptor import authorize
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.model.topic_names import PIPELINES_TOPIC
from qanat.security.authorization import Authorizer
from qanat.security.settings import SecuritySettings
from qanat.servers.http.operation_table import OPERATIONS
from qanat.servers.http.operations import Operation, Routes
from qanat.servers.listener_security import ListenerSecurity
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

CALLER, ROOT = "User:alice", "User:root"
TOPIC, GROUP, QUEUE, TRANSACTION = "orders", "readers", "workers", "ledger"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
_COMMIT = {"offsets": [{"topic": TOPIC, "partition": 0, "offset": 0}]}
_ACKNOWLEDGE = {"member_id": "m", "records": [{"topic": TOPIC, "partition": 0, "offset": 0}]}
_RULE = {"resource": "user", "name": "carol", "principal": "User:carol", "operation": "describe_tokens"}
_STREAM = {"instance": "a-child", "outbox_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 0, "target": TOPIC}
ROWS: dict[str, tuple[str, Any]] = {
    "produce": ("/produce", {"topic": TOPIC, "value": 1}),
    "produce_to_topic": (f"/api/v1/topics/{TOPIC}/records", {"value": 1}),
    "consume": (f"/consume?topic={TOPIC}&count=1", None),
    "read_topic": (f"/api/v1/topics/{TOPIC}/records?count=1", None),
    "search_topic": (f"/api/v1/topics/{TOPIC}/search?count=1", None),
    "search_by_body": (f"/api/v1/topics/{TOPIC}/search", {"count": 1}),
    "topic_traffic": (f"/api/v1/topics/{TOPIC}/traffic", None),
    "cluster_traffic": ("/api/v1/cluster/traffic", None),
    "diagnose": ("/api/v1/diagnosis", None),
    "list_clients": ("/api/v1/clients", None),
    "describe_client": ("/api/v1/clients/00000000-0000-0000-0000-0000000000ff", None),
    "list_configured": ("/api/v1/configs/topics", None),
    "list_users": ("/api/v1/users", None),
    "set_password": ("/api/v1/users/carol", {"password": "secret"}),
    "remove_user": ("/api/v1/users/nobody", None),
    "list_rules": ("/api/v1/acls", None),
    "create_rule": ("/api/v1/acls", _RULE),
    "delete_rule": ("/api/v1/acls", _RULE),
    "stream_topic": (f"/api/v1/topics/{TOPIC}/stream", None),
    "websocket_topic": (f"/api/v1/topics/{TOPIC}/ws", None),
    "subscribe": ("/subscribe", {"group": GROUP, "topics": [TOPIC], "member_id": "m"}),
    "heartbeat": (f"/api/v1/groups/{GROUP}/members/m/heartbeat", None),
    "read_as_member": (f"/api/v1/groups/{GROUP}/members/m/records?count=1", None),
    "leave_group": (f"/api/v1/groups/{GROUP}/members/m", None),
    "acquire": (f"/api/v1/queues/{QUEUE}/acquire", {"topics": [TOPIC], "member_id": "m"}),
    "acknowledge": (f"/api/v1/queues/{QUEUE}/acknowledge", _ACKNOWLEDGE),
    "describe_queue": (f"/api/v1/queues/{QUEUE}", None),
    "leave_queue": (f"/api/v1/queues/{QUEUE}/members/m", None),
    "list_dead_letters": (f"/api/v1/topics/{TOPIC}/dead-letters", None),
    "redrive_dead_letters": (f"/api/v1/topics/{TOPIC}/dead-letters/redrive", {}),
    "create_topic": ("/api/v1/topics", {"name": "new", "validate_only": True}),
    "describe_topic": (f"/api/v1/topics/{TOPIC}", None),
    "alter_topic": (f"/api/v1/topics/{TOPIC}", {"configs": {"retention.ms": 100_000}}),
    "delete_topic": (f"/api/v1/topics/{TOPIC}", None),
    "add_partitions": (f"/api/v1/topics/{TOPIC}/partitions", {"partitions": 2}),
    "delete_records": (f"/api/v1/topics/{TOPIC}/records", {"offsets": {"0": 0}}),
    "describe_group": (f"/api/v1/groups/{GROUP}", None),
    "describe_lag": (f"/api/v1/groups/{GROUP}/lag", None),
    "delete_group": (f"/api/v1/groups/{GROUP}", None),
    "fetch_offsets": (f"/api/v1/groups/{GROUP}/offsets", None),
    "commit_offsets": (f"/api/v1/groups/{GROUP}/offsets", _COMMIT),
    "reset_offsets": (f"/api/v1/groups/{GROUP}/offsets/reset", {"topic": TOPIC}),
    "start_refresh": (f"/api/v1/groups/{GROUP}/refreshes", {"topic": TOPIC}),
    "list_refreshes": (f"/api/v1/groups/{GROUP}/refreshes", None),
    "end_refresh": (f"/api/v1/groups/{GROUP}/refreshes/{TOPIC}", None),
    "describe_configs": (f"/api/v1/configs/topics/{TOPIC}", None),
    "alter_configs": (f"/api/v1/configs/topics/{TOPIC}", {"configs": {"retention.ms": 100_000}}),
    "describe_broker": ("/api/v1/brokers/0", None),
    "describe_transaction": (f"/api/v1/transactions/{TRANSACTION}", None),
    "abort_transaction": (f"/api/v1/transactions/{TRANSACTION}/abort", None),
    "list_pipelines": ("/api/v1/pipelines", None),
    "describe_pipeline": ("/api/v1/pipelines/billing", None),
    "pipeline_metrics": ("/metrics/pipelines", None),
    "metrics": ("/metrics", None),
    "register_node": ("/api/v1/edge/nodes", {"node": "pos-1", "instance": "a cluster"}),
    "list_nodes": ("/api/v1/edge/nodes", None),
    "place_node": ("/api/v1/edge/nodes/pos-1", {"role": "POS"}),
    "retire_node": ("/api/v1/edge/nodes/nobody", None),
    "topology": ("/api/v1/edge/topology/nobody", None),
    "begin_up": ("/api/v1/edge/up/begin", {"stream": _STREAM}),
    "take_up": ("/api/v1/edge/up", {"stream": _STREAM, "file": "upload-1", "position": 0}),
    "pull": ("/api/v1/edge/pipe", {"node": "pos-1", "partitions": [{"topic": TOPIC, "partition": 0, "offset": 0}]}),
}
"""The request of an operation that may be refused: its path, and its body."""
LEFT_OUT = {"piped_topics": TOPIC, "list_topics": TOPIC, "list_groups": GROUP, "list_transactions": TRANSACTION}
"""Lists, and what they leave out for those who may not describe it."""
FOR_ALL_USERS = ("describe_cluster", "list_brokers", "who_am_i")
"""As in Kafka, who is authenticated learns which brokers there are; and who it is."""
BY_NAME = {operation.name: operation for operation in OPERATIONS}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """A node that has the topic, the groups and the transactional id of the requests."""
    passwords: Path = tmp_path_factory.mktemp("passwords") / "passwords"
    passwords.write_text("alice:secret\nroot:secret\n")
    passwords.chmod(0o600)
    settings = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT", sasl_plain_credentials_file=str(passwords), super_users=ROOT
    )
    with served(replace(node_settings(), security=settings)) as running:
        running.node.listener.dispatcher.interceptor = authorize
        decide_by(running, Recorder())
        prepare(running)
        with RawClient(running.node.address) as client:
            client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0root\0secret"))
            client.ask_coordinator(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(TRANSACTION, 1000))
        yield running


def prepare(node: ServedNode) -> None:
    """Create what a request may have deleted."""
    if TOPIC not in node.node.broker.metadata.image.topics:
        assert (
            call(node, "root", BY_NAME["create_topic"], "/api/v1/topics", {"name": TOPIC, "partitions": 1}).status
            == 201
        )
    if PIPELINES_TOPIC not in node.node.broker.metadata.image.topics:
        made = call(node, "root", BY_NAME["create_topic"], "/api/v1/topics", {"name": PIPELINES_TOPIC, "partitions": 1})
        assert made.status == 201
        path = f"/api/v1/topics/{PIPELINES_TOPIC}/records"
        assert call(node, "root", BY_NAME["produce_to_topic"], path, {"value": 1}).status == 200
    assert call(node, "root", BY_NAME["subscribe"], *ROWS["subscribe"]).status == 200


def decide_by(node: ServedNode, authorizer: Authorizer, *super_users: str) -> None:
    assert node.node.http is not None
    gateway = node.node.http.context.gateway
    gateway.security = ListenerSecurity(authorizer=authorizer, super_users=super_users)


def call(node: ServedNode, who: str | None, operation: Operation, path: str, body: Any = None) -> Answer:
    """One request; of a stream, its head."""
    headers = UPGRADE if operation.name == "websocket_topic" else {}
    if who is not None:
        headers = headers | {"Authorization": f"Basic {base64.b64encode(f'{who}:secret'.encode()).decode()}"}
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_S)
    try:
        data = None if body is None else msgspec.json.encode(body)
        if data is not None and operation.name == "take_up":
            data = len(data).to_bytes(4, "big") + data  # The head of an upload, without its bytes.
        connection.request(operation.method, path, data, headers | {"Content-Type": "application/json"})
        response = connection.getresponse()
        is_endless = response.status < 300 and operation.name in ("stream_topic", "websocket_topic")
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, b"" if is_endless else response.read())
    finally:
        connection.close()


def is_served(node: ServedNode, name: str) -> bool:
    """Whether an operation is not refused; a refusal is a problem document that says what is missing."""
    prepare_as_all(node)
    if name in LEFT_OUT:
        answer = call(node, "alice", BY_NAME[name], BY_NAME[name].path)
        assert answer.status == 200
        return LEFT_OUT[name] in answer.body.decode()
    answer = call(node, "alice", BY_NAME[name], *ROWS[name])
    if answer.status != 403:
        assert answer.status != 401
        return True
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["status"] == 403
    assert answer.json["error"].endswith("_AUTHORIZATION_FAILED")
    assert answer.json["principal"] == CALLER
    return False


def prepare_as_all(node: ServedNode) -> None:
    """Prepare a request under the rules of nobody."""
    assert node.node.http is not None
    gateway = node.node.http.context.gateway
    before, gateway.security = gateway.security, ListenerSecurity(authorizer=Recorder())
    try:
        prepare(node)
    finally:
        gateway.security = before


def test_every_operation_has_a_row_or_a_reason() -> None:
    public = [operation.name for operation in OPERATIONS if operation.is_public]

    assert sorted(BY_NAME) == sorted([*ROWS, *LEFT_OUT, *FOR_ALL_USERS, *public])


def test_every_row_is_a_request_of_its_operation() -> None:
    routes = Routes(OPERATIONS)
    found = {
        name: routes.find(BY_NAME[name].method, path.partition("?")[0])[0].name for name, (path, _) in ROWS.items()
    }

    assert found == {name: name for name in ROWS}


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_an_operation_needs_a_password_unless_it_is_for_everyone(node: ServedNode, name: str) -> None:
    operation = BY_NAME[name]
    answer = call(node, None, operation, *ROWS.get(name, (operation.path, None)))

    assert (answer.status == 401) is not operation.is_public
    if not operation.is_public:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert json.loads(answer.body)["status"] == 401


@pytest.mark.parametrize("name", [*ROWS, *LEFT_OUT])
def test_an_operation_is_answered_as_its_rules_say(node: ServedNode, name: str) -> None:
    recorder = Recorder()
    decide_by(node, recorder)
    assert is_served(node, name)
    needs = list(recorder.asked)
    assert needs
    image = Image()
    decide_by(node, AclAuthorizer(image))
    wrong = []
    for scenario, (rules, is_enough) in scenarios(CALLER).items():
        image.set(rules(needs))
        if is_served(node, name) is not is_enough:
            wrong.append(scenario)
    image.set([])
    decide_by(node, AclAuthorizer(image), CALLER)
    if not is_served(node, name):
        wrong.append("super user")

    assert wrong == []


@pytest.mark.parametrize("name", ROWS)
def test_a_refusal_is_the_same_for_what_is_there_and_what_is_not(node: ServedNode, name: str) -> None:
    decide_by(node, AclAuthorizer(Image()))
    path, body = ROWS[name]
    there = call(node, "alice", BY_NAME[name], path, body)
    text = msgspec.json.encode([path, body]).decode()
    for one in (TOPIC, GROUP, QUEUE, TRANSACTION):
        text = text.replace(one, one.upper())
    absent = call(node, "alice", BY_NAME[name], *msgspec.json.decode(text))

    assert (there.status, absent.status) == (403, 403)
    assert absent.body.decode().lower() == there.body.decode().lower()


@pytest.mark.parametrize("name", FOR_ALL_USERS)
def test_some_operations_are_for_all_users(node: ServedNode, name: str) -> None:
    decide_by(node, AclAuthorizer(Image()))

    assert call(node, "alice", BY_NAME[name], BY_NAME[name].path).status == 200
