"""`qanat cluster upgrade`: raise the format level, once every broker runs the new version."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.cluster.cluster_view import FormatLevel, level_of
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.cluster.format_levels import FEATURE
from qanat.connection.cluster import Cluster
from qanat.connection.faults import NotOfferedError, check
from qanat.wire.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from qanat.wire.kafka.registry import ApiKey


def upgrade(
    *,
    to: Annotated[int | None, Parameter(name="--to")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Raise the format level of a cluster whose brokers all run the new version.

    Until then brokers write formats that older brokers read, so that brokers can be replaced one by one, and back.
    From then on older brokers are refused. The level cannot be lowered again.

        qanat cluster status
        qanat cluster upgrade --dry-run
        qanat cluster upgrade

    Parameters
    ----------
    to:
        The level. Default: the newest known one.
    dry_run:
        Only check whether it is possible.
    output:
        A sentence for people, the others for programs.
    """

    async def work(cluster: Cluster) -> tuple[FormatLevel, int]:
        level = await level_of(cluster)
        if level is None:
            raise WrongArgumentError("this cluster has no format level: its brokers are older, or not Qanat's")
        wanted = level.newest if to is None else to
        request = UpdateFeaturesRequest(30_000, [FeatureUpdateKey(FEATURE, wanted)], dry_run)
        try:
            answer: UpdateFeaturesResponse = await cluster.call_controller(ApiKey.UPDATE_FEATURES, request)
        except NotOfferedError as fault:
            raise WrongArgumentError(f"not every broker runs the new version yet: {fault}") from None
        check("the cluster is not upgraded", answer.error_code, answer.error_message)
        return level, wanted

    before, after = run(target, work)
    row: Row = {"feature": FEATURE, "before": before.now, "level": after, "is_dry_run": dry_run}
    print_done([row], ("feature", "before", "level", "is_dry_run"), output, _sentence)
    return 0


def _sentence(row: Row) -> str:
    if row["before"] == row["level"]:
        return f"the cluster is at format level {row['level']} already"
    if row["is_dry_run"]:
        return f"the format level would be {row['level']}, and is {row['before']}"
    return f"the format level is {row['level']}, and was {row['before']}"
