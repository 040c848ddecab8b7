"""Clients that push metrics (KIP-714), as all brokers know them, and the numbers of one.

Each client pushes to one broker. Whoever may describe the cluster sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from qanat.api.configs.client_metrics import NAME
from qanat.api.configs.config_resources import ResourceType
from qanat.broker.runtime.client_metrics import ClientMetricsReport, ClientView, SeriesView
from qanat.model.errors import QanatError
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import WindowQuery, window_of
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.context import HttpContext


class ClientsQuery(WindowQuery, frozen=True):
    """Which clients."""

    search: str = ""
    """Only those with this text in their id, software, address or principal."""


class ClientPage(msgspec.Struct):
    """Some clients."""

    clients: list[ClientView]
    next_page_token: str | None
    total: int


class ClientDetails(msgspec.Struct):
    """A client, and the numbers that it pushed last."""

    client: ClientView
    series: list[SeriesView]


async def list_clients(exchange: Exchange) -> ClientPage:
    exchange.context.gateway.require_describe(exchange.caller, "metrics of clients")
    query: ClientsQuery = exchange.query
    wanted = query.search.lower()
    rows = [one for found in await _reports(exchange.context, NAME) for one in found.clients if _has(one, wanted)]
    page = window_of(rows, None, lambda one: f"{one.client_id} {one.client_instance_id}", query)
    return ClientPage(page.rows, page.token, page.total)


async def describe_client(exchange: Exchange) -> ClientDetails:
    exchange.context.gateway.require_describe(exchange.caller, "metrics of clients")
    wanted = exchange.path["client"]
    try:
        wanted = str(UUID(wanted))
    except ValueError:
        raise Problem(400, f"{wanted[:100]!r} is no client instance id: GET /api/v1/clients lists them") from None
    found = [
        (one, report.series.get(wanted, []))
        for report in await _reports(exchange.context, f"{NAME}:{wanted}")
        for one in report.clients
        if one.client_instance_id == wanted
    ]
    if not found:
        raise Problem(404, f"no client {wanted} pushes metrics to this cluster, or it has been silent for too long")
    newest = min(found, key=lambda pair: (pair[0].last_push_ms_ago is None, pair[0].last_push_ms_ago or 0))
    return ClientDetails(*newest)


def _has(client: ClientView, wanted: str) -> bool:
    texts = (client.client_id, client.client_instance_id, client.software_name, client.address, client.principal)
    return any(wanted in text.lower() for text in texts)


async def _reports(context: HttpContext, name: str) -> list[ClientMetricsReport]:
    """What each broker knows, read under this broker's own name; one that does not answer knows nothing."""
    found: list[ClientMetricsReport] = []
    for node_id in sorted(context.broker.metadata.image.brokers):
        request = DescribeConfigsRequest([DescribeConfigsResource(ResourceType.BROKER, str(node_id), [name])])
        try:
            response: DescribeConfigsResponse = await context.gateway.call(
                context.gateway.own_caller, ApiKey.DESCRIBE_CONFIGS, request, node_id
            )
            check(response.results[0].error_code, "metrics of clients", response.results[0].error_message)
        except (Problem, QanatError):
            continue
        texts = [one.value for one in response.results[0].configs if one.name == name and one.value is not None]
        found += [msgspec.json.decode(text, type=ClientMetricsReport) for text in texts]
    return found


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/clients",
        list_clients,
        "List clients that push metrics (KIP-714)",
        "cluster",
        query=ClientsQuery,
        answer=ClientPage,
    ),
    Operation(
        "GET",
        "/api/v1/clients/{client}",
        describe_client,
        "Describe a client: the numbers that it pushed last",
        "cluster",
        answer=ClientDetails,
    ),
)
