"""`qanat topic delete`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.app.topics.outcome import DONE_COLUMNS, done_sentence
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from qanat.wire.kafka.registry import ApiKey


def delete(
    topics: Annotated[list[str], Parameter(name="topic", negative="")],
    /,
    *,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Delete topics with everything in them. Without --yes, only list them.

        qanat topic delete orders-test --yes

    Parameters
    ----------
    topics:
        Names.
    output:
        A sentence each for people, the others for programs.
    """
    rows: list[Row] = []

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        views = [await cluster.topic(topic, deadline, may_lack_leaders=True) for topic in topics]
        sizes = {view.name: len(view.leaders) for view in views}
        if not consent.is_confirmed:
            rows.extend({"topic": topic, "partitions": size, "done": "would delete"} for topic, size in sizes.items())
            return
        states = [DeleteTopicState(topic) for topic in topics]
        request = DeleteTopicsRequest(list(topics), states, timeout_ms=deadline.left_ms)
        response: DeleteTopicsResponse = await cluster.call_controller(ApiKey.DELETE_TOPICS, request, deadline)
        for result in response.responses:
            check(f"cannot delete topic {result.name}", result.error_code, result.error_message)
            rows.append({"topic": result.name, "partitions": None, "done": "deleted"})

    try:
        run(target, work)
    finally:
        if rows:
            print_done(rows, DONE_COLUMNS, output, done_sentence)
    return 0 if consent.is_confirmed else consent.report_withheld("deleted")
