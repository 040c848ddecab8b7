"""`qanat push list`: the connected push consumers of every broker."""

from __future__ import annotations

from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster
from qanat.connection.push.link import PushLink
from qanat.wire.push.control import VERSION, Heartbeat

_COLUMNS = (
    "client",
    "peer",
    "topics",
    "group",
    "mode",
    "unacknowledged",
    "credit",
    "lag",
    "last_ack",
    "refresh",
    "broker",
)


def list_consumers(*, output: Output = "table", watch: Watch = ONCE, target: Target = HERE) -> None:
    """List connected push consumers: group, mode, credit, lag, last ACK, refresh.

        qanat push list -o json

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    security = target.resolved().settings.security()

    async def listed(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        rows: list[Row] = []
        for broker in (await cluster.metadata([], deadline)).brokers:
            link = await PushLink.open([(broker.host, broker.port)], deadline, security, "qanat push list")
            try:
                answer = await link.ask(Heartbeat(VERSION, ask="consumers"), deadline)
            finally:
                link.close()
            rows += [
                {
                    "client": one.client,
                    "peer": one.peer,
                    "topics": ",".join(one.topics),
                    "group": one.group,
                    "mode": one.mode.value,
                    "unacknowledged": one.out_records,
                    "credit": one.credit_records,
                    "lag": None if one.unknown_lags else one.lag,
                    "last_ack": one.last_ack,
                    "refresh": one.refresh,
                    "broker": broker.node_id,
                }
                for one in answer.consumers
            ]
        return sorted(rows, key=lambda row: (str(row["group"]), str(row["peer"])))

    show(target, watch, listed, lambda rows: print_rows(rows, _COLUMNS, output, spare=("peer", "broker")))
