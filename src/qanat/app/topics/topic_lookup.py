"""Topics by name or by a regular expression over names."""

from __future__ import annotations

import re

from qanat.app.client.arguments import WrongArgumentError
from qanat.connection.cluster import Cluster
from qanat.connection.faults import refused
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.metadata import MetadataResponseTopic


async def find_topics(cluster: Cluster, names: list[str], regex: str | None) -> list[MetadataResponseTopic]:
    """These topics, or all whose name matches a regular expression, sorted by name."""
    if names and regex is None:
        deadline = cluster.deadline()
        for name in names:
            # An unknown topic gets its own error.
            await cluster.topic(name, deadline, may_lack_leaders=True)
    try:
        expression = re.compile(regex or "")
    except re.error as fault:
        raise WrongArgumentError(f"--regex {regex}: {fault}") from None
    response = await cluster.metadata(names or None, cluster.deadline())
    for topic in response.topics:
        if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            raise refused(f"topic {topic.name}", topic.error_code)
    return sorted((one for one in response.topics if expression.search(one.name or "")), key=lambda one: one.name or "")
