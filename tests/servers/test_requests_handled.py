"""Every server counts its requests for the log, which so knows whether one client has the broker to itself."""

from __future__ import annotations

from tests.servers.http.serving import ServedNode, node_settings, served
from tests.servers.kafka.raw import RawClient

from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.registry import ApiKey


def handled(node: ServedNode) -> int:
    return node.node.broker.runtime.requests_handled


def test_requests_are_counted_by_every_server() -> None:
    with served(node_settings()) as node, RawClient(f"127.0.0.1:{node.node.listener.port}") as client:
        before = handled(node)
        for _ in range(3):
            client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        by_kafka = handled(node) - before
        for _ in range(2):
            assert node.get("/api/v1/topics").status < 500
        by_http = handled(node) - before - by_kafka

        assert by_kafka == 3
        assert by_http >= 2
