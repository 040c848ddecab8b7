"""The settings of a broker, under Kafka's names where Kafka has one."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qanat.model.settings import NotNegative, Positive, Settings
from qanat.replication.throttle import UNLIMITED

_MIB = 1024 * 1024

Port = Annotated[int, Meta(ge=0, le=65535)]

_PACKAGE = "org.apache.kafka.common.replica."
LEADER_SELECTORS = (None, "", "LeaderSelector", f"{_PACKAGE}LeaderSelector")
"""Values that let consumers read from leaders only."""
RACK_AWARE_SELECTORS = ("RackAwareReplicaSelector", f"{_PACKAGE}RackAwareReplicaSelector")


class BrokerSettings(Settings, frozen=True):
    """One broker's settings. Defaults are Qanat's (docs: settings)."""

    host_name: str = "127.0.0.1"
    """Address that the Kafka listener binds to; loopback by default."""
    port: Port = 9092
    """Port of the Kafka listener; 0 takes a free one."""
    advertised_host_name: str | None = None
    """Host name that clients connect to, where it is not the one bound to."""
    advertised_port: Port | None = None
    """Port that clients connect to, where it is not the one bound to."""
    bootstrap_port: Port | None = None
    """A second port of the Kafka listener, shared by all brokers of this host that have it: one address for the first
    connection of clients, while any of them runs. With several `listeners`, `listener.name.<name>.bootstrap.port`."""
    push_port: Port | None = None
    """A port for the push protocol alone, besides the port of the Kafka listener, which serves it as well; with the TLS
    and the authentication of the first listener. 0 takes a free one."""
    inter_broker_port: Port | None = None
    """Port of the listener for other brokers of the cluster; 0 takes a free one, without it there are no others."""
    broker_rack: str | None = None
    """The rack of this broker: replicas of a partition are spread over racks."""
    replica_selector_class: str | None = None
    """`RackAwareReplicaSelector`: consumers that name their rack read from a replica there, others from leaders."""
    broker_session_timeout_ms: Positive = 6000
    """How long a broker counts as alive after its last sign of life to the metadata store."""
    replica_lag_time_max_ms: Positive = 10_000
    """A follower that has not caught up for this long is not in sync any more."""
    replica_fetch_wait_max_ms: Positive = 500
    """How long a leader may let a follower wait that has everything."""
    replica_fetch_max_bytes: Positive = _MIB
    """Bytes of one partition that a follower fetches at once."""
    replica_fetch_response_max_bytes: Positive = 8 * _MIB
    """Bytes of all partitions together that a follower fetches at once."""
    leader_replication_throttled_rate: NotNegative = UNLIMITED
    """Bytes a second sent to replicas that catch up and are named in `leader.replication.throttled.replicas`."""
    follower_replication_throttled_rate: NotNegative = UNLIMITED
    """Bytes a second fetched for replicas that catch up and are named in `follower.replication.throttled.replicas`."""
    reassignment_throttled_rate: NotNegative = 64 * _MIB
    """Bytes a second fetched for replicas that a reassignment adds and that neither of these settings names."""
    auto_leader_rebalance_enable: bool = True
    """Whether partitions go back to their first replica some time after it has caught up again."""
    leader_imbalance_check_interval_seconds: Positive = 30
    """How often leaders and the spread of partitions are checked."""
    auto_partition_rebalance_enable: bool = False
    """Whether partitions are spread over all brokers automatically, for instance onto one that has joined."""
    auto_partition_rebalance_moves: Positive = 10
    """How many partitions are moved at a time then; `reassignment.throttled.rate` limits how fast."""
    unclean_recovery_timeout_ms: NotNegative = 30_000
    """How long an election waits, after an unclean stop of all in-sync replicas, for those that are not back yet."""
    controlled_shutdown_timeout_ms: NotNegative = 5000
    """How long a broker that stops waits for others to take over what it leads."""
    num_partitions: Positive = 4
    """Partitions of a topic that is created without a number."""
    default_replication_factor: Positive | None = None
    """Replicas of a topic that is created without a number; without it 3 where brokers run on three hosts or more, with
    `min.insync.replicas` 2 unless that is set, and else 1."""
    auto_create_topics_enable: bool = True
    """Whether a topic is created when a client first asks for it."""
    delete_topic_enable: bool = True
    """Whether topics may be deleted."""
    socket_request_max_bytes: Positive = 100 * _MIB
    """Largest request that is accepted."""
    queued_max_request_bytes: Positive = 512 * _MIB
    """Request bytes that all connections together may hold, half received or unanswered; reading stops above."""
    max_connections: Positive = 20_000
    """Connections at one time; more are closed at once."""
    max_unanswered_requests: Positive = 256
    """Requests of one connection that wait for their response; reading stops above."""
    max_unanswered_bytes: Positive = 64 * _MIB
    """Bytes of these requests; reading stops above, so that one request may go beyond."""
    max_unsent_bytes: Positive = 64 * 1024
    """Response bytes that one connection has not taken yet; reading stops above."""
    fetch_max_bytes: Positive = 55 * _MIB
    """Largest response to a fetch, whatever the client allows."""
    max_incremental_fetch_session_cache_slots: NotNegative = 1000
    """Fetch sessions in memory; 0 disables them."""
    slow_request_ms: Positive = 1000
    """A request that takes longer is logged, unless it waits because its client asked for that."""
    metrics_host_name: str = "127.0.0.1"
    """Address that the metrics are served on; loopback by default."""
    metrics_port: Port | None = None
    """Port of `GET /metrics` for Prometheus; 0 takes a free one, and without it nothing is served."""
    metrics_security_protocol: Literal["PLAINTEXT", "SSL"] = "PLAINTEXT"
    """How the metrics are protected: `SSL` is HTTPS, with `listener.name.metrics.ssl.client.auth=required` for certain
    clients only."""
    metrics_per_partition: bool = False
    """Whether sizes and offsets of logs, and the lag of groups, are reported by partition, and not only by topic."""
    group_lag_interval_ms: NotNegative = 10_000
    """How often the lag of groups is collected while someone looks at it; 0 turns that off."""

    def __post_init__(self) -> None:
        if self.replica_selector_class not in (*LEADER_SELECTORS, *RACK_AWARE_SELECTORS):
            raise ValueError(
                f"replica.selector.class = {self.replica_selector_class!r}: known are RackAwareReplicaSelector and "
                "LeaderSelector, with or without Kafka's package before the name"
            )
