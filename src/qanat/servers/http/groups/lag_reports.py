"""Reports of lag: what the collectors of all brokers have found, read and never computed.

Each group's lag is with its coordinator (`broker.group_lag`). The reports of all brokers are fetched at most once in
two seconds, and where there are many groups less often (`kept_answers`).

Rule: reports are read under the broker's own name. What a caller may see of them is decided where they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.api.configs.config_resources import ResourceType
from qanat.api.configs.group_lag import NAME
from qanat.groups.lag.reports import GroupLag, GroupLagDetails, LagReport
from qanat.model.errors import QanatError
from qanat.servers.http.kept_answers import KeptAnswer
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from qanat.servers.http.kafka_gateway import KafkaGateway

KEPT_S = 2.0


class LagReports:
    """The lag of all groups, as of the last seconds."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._groups: KeptAnswer[dict[str, GroupLag]] = KeptAnswer(KEPT_S)
        self._by_topic: dict[str, int] = {}
        self._by_topic_of: dict[str, GroupLag] | None = None
        """The groups that `_by_topic` was made of."""

    async def groups(self) -> dict[str, GroupLag]:
        """By name; a broker that does not answer has none."""
        return await self._groups.get(self._read_all)

    async def _read_all(self) -> dict[str, GroupLag]:
        found: dict[str, GroupLag] = {}
        for node_id in sorted(self._gateway.broker.metadata.image.brokers):
            found |= await self._groups_of(node_id)
        return found

    async def by_topic(self, sees: Callable[[str], bool] | None) -> dict[str, int]:
        """The largest lag of a group in each topic; `sees` says which groups count, all where it is None."""
        groups = await self.groups()
        if sees is None and self._by_topic_of is groups:
            return self._by_topic
        found: dict[str, int] = {}
        for group in groups.values():
            if sees is None or sees(group.group):
                for row in group.topics:
                    found[row.topic] = max(row.records, found.get(row.topic, 0))
        if sees is None:
            self._by_topic, self._by_topic_of = found, groups
        return found

    async def _groups_of(self, node_id: int) -> dict[str, GroupLag]:
        try:
            text = await self._read(ResourceType.BROKER, str(node_id), node_id)
        except (Problem, QanatError):
            return {}  # It is down: its groups have another coordinator in a moment.
        if text is None:
            return {}
        return {one.group: one for one in msgspec.json.decode(text, type=LagReport).groups}

    async def details(self, group: str) -> GroupLagDetails | None:
        """One group, from its coordinator; None where it has committed nothing, or lag is not collected."""
        text = await self._read(ResourceType.GROUP, group, await self._gateway.coordinator(group))
        return None if text is None else msgspec.json.decode(text, type=GroupLagDetails)

    async def _read(self, kind: ResourceType, name: str, node_id: int) -> str | None:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, [NAME])])
        response: DescribeConfigsResponse = await self._gateway.call(
            self._gateway.own_caller, ApiKey.DESCRIBE_CONFIGS, request, node_id
        )
        result = response.results[0]
        check(result.error_code, f"the lag of {name}", result.error_message)
        return next((one.value for one in result.configs if one.name == NAME), None)
