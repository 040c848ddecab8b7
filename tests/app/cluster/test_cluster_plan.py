"""The plan of a local cluster."""

from __future__ import annotations

from qanat.app.cluster.cluster_plan import BrokerPlan, plan_cluster


def test_brokers_are_numbered_from_the_first_one_on_neighbouring_ports() -> None:
    plan = plan_cluster("data", 2, 9092, 8080, first_id=5)

    assert plan.brokers == (BrokerPlan(5, 9092, 19092, 8080), BrokerPlan(6, 9093, 19093, 8081))
    assert plan.command(plan.brokers[1])[4:10] == ["--port", "9093", "--node-id", "6", "--data-dir", "data"]
