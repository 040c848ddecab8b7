"""`qanat cluster elect`: elect preferred leaders, or unclean ones."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.cluster.reassignment_plan import parse_partition
from qanat.app.cluster.unclean_losses import COLUMNS as LOSSES
from qanat.app.cluster.unclean_losses import unclean_losses
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from qanat.wire.kafka.registry import ApiKey

_ELECTED_COLUMNS = ("topic", "partition", "outcome")
_PREFERRED, _UNCLEAN = 0, 1
_ELECTED = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


def elect(
    partitions: Annotated[list[str], Parameter(name="partition", negative="")] = [],  # noqa: B006 - never changed
    /,
    *,
    unclean: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    consent: Consent = UNDECIDED,
    target: Target = HERE,
) -> int:
    """Elect the preferred replicas; or, with `--unclean`, any replica of a partition that no replica can lead cleanly.

    An unclean election loses records that only missing replicas have, and records that the best replica cannot read.
    The command shows the replicas and the losses, and requires --yes.

        qanat cluster elect
        qanat cluster elect orders:0 --unclean
        qanat cluster elect orders:0 --unclean --yes

    Exit codes: 0 all elections succeeded, 1 some did not.

    Parameters
    ----------
    partitions:
        Partitions, topic:number. Default: all.
    unclean:
        Elect although records will be lost.
    output:
        `table` for people, the others for programs.
    """
    named = [parse_partition(text) for text in partitions]
    if unclean:
        losses = run(target, lambda cluster: unclean_losses(cluster, named))
        if losses:
            with contextlib.redirect_stdout(sys.stderr if consent.is_confirmed else sys.stdout):
                print_rows(losses, LOSSES, "table" if consent.is_confirmed else output)
        if not consent.is_confirmed:
            return consent.report_withheld("elected")
    by_topic: dict[str, list[int]] = {}
    for topic, number in named:
        by_topic.setdefault(topic, []).append(number)
    request = ElectLeadersRequest(
        _UNCLEAN if unclean else _PREFERRED,
        [TopicPartitions(topic, numbers) for topic, numbers in by_topic.items()] if by_topic else None,
        30_000,
    )

    async def work(cluster: Cluster) -> list[Row]:
        answer: ElectLeadersResponse = await cluster.call_controller(ApiKey.ELECT_LEADERS, request)
        check("leaders were not elected", answer.error_code)
        found = [(topic.topic, one) for topic in answer.replica_election_results for one in topic.partition_result]
        failed.extend(one.error_code for _, one in found if one.error_code not in _ELECTED)
        return [
            {
                "topic": topic,
                "partition": one.partition_id,
                "outcome": "elected" if not one.error_code else one.error_message,
            }
            for topic, one in found
        ]

    failed: list[int] = []
    rows = run(target, work)
    if not rows and output == "table":
        print("every partition has a leader" if unclean else "every partition is led by its preferred replica")
        return 0
    print_rows(rows, _ELECTED_COLUMNS, output)
    return 1 if failed else 0
