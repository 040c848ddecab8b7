"""`qanat group delete`."""

from __future__ import annotations

from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.groups.describe import Groups, described
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from qanat.wire.kafka.registry import ApiKey

_DONE_COLUMNS = ("group", "state", "done")


def delete(groups: Groups, /, *, consent: Consent = UNDECIDED, output: Output = "table", target: Target = HERE) -> int:
    """Delete groups with their committed offsets; refuses groups with members. Without --yes, only list them.

        qanat group delete billing-test --yes

    Parameters
    ----------
    groups:
        Names.
    output:
        A sentence each for people, the others for programs.
    """
    rows: list[Row] = []

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        states = {group: (await described(cluster, group))[0].state for group in groups}
        if not consent.is_confirmed:
            rows.extend({"group": group, "state": state, "done": "would delete"} for group, state in states.items())
            return
        for group in groups:
            link = await cluster.coordinator_link(group, deadline)
            response: DeleteGroupsResponse = await link.call(
                ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group]), deadline
            )
            code = response.results[0].error_code
            hint = "it has members; stop its consumers first" if code == ErrorCode.NON_EMPTY_GROUP else None
            check(f"cannot delete group {group}", code, hint)
            rows.append({"group": group, "state": None, "done": "deleted"})

    try:
        run(target, work)
    finally:
        if rows:
            print_done(rows, _DONE_COLUMNS, output, _done_sentence)
    return 0 if consent.is_confirmed else consent.report_withheld("deleted")


def _done_sentence(row: Row) -> str:
    return f"{row['done']} {row['group']}" + (f" ({row['state']})" if row["state"] is not None else "")
