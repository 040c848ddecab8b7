"""All alerts, the worst first. Their tests (firing and staying quiet) are in `tests/app/metrics`."""

from __future__ import annotations

from qanat.app.metrics.alert import Alert

_HERE = "{{ $labels.instance }}"
_FLUSH = "histogram_quantile(0.99, sum by (instance, le) (rate(qanat_log_flush_seconds_bucket[5m])))"
_LATE = "histogram_quantile(0.99, sum by (instance, le) (rate(qanat_loop_late_seconds_bucket[5m])))"
_PRODUCE = (
    'histogram_quantile(0.99, sum by (instance, le) (rate(qanat_request_duration_seconds_bucket{api="Produce"}[5m])))'
)
_SERVER_ERRORS = "UNKNOWN_SERVER_ERROR|KAFKA_STORAGE_ERROR|CORRUPT_MESSAGE"

CLUSTER = (
    Alert(
        "QanatBrokerDown",
        'up{job="qanat"} == 0',
        "1m",
        "critical",
        f"Broker {_HERE} does not answer Prometheus.",
        "The process is down, hangs, or its metrics cannot be reached. Its partitions are led by others, if they have "
        "replicas; one more loss may stop writes.",
        ("the process and its log on that machine", "`qanat cluster status`", "`qanat doctor` on that machine"),
        ("Start the broker again.", "Where its disk is gone, replace it: the broker fetches its replicas again."),
    ),
    Alert(
        "QanatPartitionLeaderless",
        "sum(qanat_partitions_leaderless) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions have no leader.",
        "Nobody can read or write these partitions: all replicas that have everything are away.",
        ("`qanat cluster status`", "the log event `partition has no leader`, which names the brokers it waits for"),
        (
            "Bring back the brokers that the partition waits for: nothing is lost then.",
            "Where they are gone for ever, `qanat cluster elect TOPIC:PARTITION --unclean` shows what would be lost.",
        ),
    ),
    Alert(
        "QanatPartitionsBelowMinInSync",
        "qanat_partitions_below_min_in_sync > 0",
        "1m",
        "critical",
        f"{{{{ $value }}}} partitions of {_HERE} refuse writes with acks=all.",
        "Fewer replicas are in sync than `min.insync.replicas`: producers with acks=all get NOT_ENOUGH_REPLICAS.",
        ("`qanat cluster status`: which replicas are missing", "`qanat_follower_lag_records`"),
        ("Bring back the brokers that are down.", "Where a follower is slow, look at its disk and network."),
    ),
    Alert(
        "QanatNoController",
        "sum(qanat_is_controller) != 1",
        "1m",
        "critical",
        "{{ $value }} brokers say that they are the controller.",
        "Without a controller nobody elects leaders. Two for longer than a moment mean that a broker does not see the "
        "metadata store.",
        ("the log events `this broker is the controller`, `the controller cannot reach the store`", "the store itself"),
        ("Bring back the metadata store (etcd, or the file of SQLite).", "Restart the broker that does not see it."),
    ),
    Alert(
        "QanatUncleanElection",
        "increase(qanat_unclean_elections_total[15m]) > 0",
        "0m",
        "critical",
        "A leader was elected that may lack records.",
        "All replicas with everything were gone, and one with less leads now: acknowledged records may be lost.",
        ("the log event `leader elected that may lack records`",),
        ("Find out which records are missing, and send them again.", "Ask why all replicas failed together."),
    ),
    Alert(
        "QanatElectionsWaiting",
        "sum(qanat_elections_waiting) > 0",
        "5m",
        "warning",
        "{{ $value }} elections wait.",
        "After an unclean stop, elections wait for replicas to prove what they have, or for an operator.",
        ("the log event `election waits for replicas that stopped uncleanly`",),
        ("Start the brokers that are named there.", "`qanat cluster elect` decides without them."),
    ),
    Alert(
        "QanatUnderReplicated",
        "qanat_partitions_under_replicated > 0",
        "10m",
        "warning",
        f"{{{{ $value }}}} partitions of {_HERE} have a replica out of sync.",
        "Writes go on, with fewer copies than was asked for.",
        ("`qanat cluster status`", "`qanat_follower_lag_records`, `qanat_in_sync_shrinks_total`"),
        ("Bring back the broker that is missing.", "Where none is, the follower is slow: disk, network, CPU."),
    ),
)
STORAGE = (
    Alert(
        "QanatLogDirectoryFailed",
        "qanat_log_directory_failed == 1",
        "0m",
        "critical",
        f"The disk of {_HERE} failed: it accepts nothing.",
        "A write or fsync failed. The broker acknowledges nothing until it starts again, so that nothing is lost.",
        ("the kernel's log (`dmesg`)", "free space and the disk's health"),
        ("Repair or replace the disk, then restart the broker.",),
    ),
    Alert(
        "QanatPartitionsOffline",
        "qanat_log_partitions_offline > 0",
        "1m",
        "critical",
        f"{{{{ $value }}}} replicas of {_HERE} could not be opened.",
        "Their files cannot be read, or belong to something else.",
        ("`qanat log verify DIRECTORY` on that machine", "the broker's log since its start"),
        ("Move the damaged folder away: the broker fetches the replica again where others have it.",),
    ),
    Alert(
        "QanatPartitionsDamaged",
        "qanat_log_partitions_damaged > 0",
        "5m",
        "critical",
        f"{{{{ $value }}}} replicas of {_HERE} have records that cannot be read.",
        "Checksums do not fit. With sound replicas elsewhere they are repaired by themselves; five minutes later they "
        "were not.",
        ("`qanat log verify DIRECTORY` on that machine", "`qanat_replicas_repaired_total`", "the disk's health"),
        ("Replace a disk that damages data again and again.", "Restore a topic with one replica from its source."),
    ),
    Alert(
        "QanatDiskAlmostFull",
        "qanat_disk_free_bytes / qanat_disk_size_bytes < 0.1",
        "5m",
        "critical",
        f"The disk of {_HERE} has {{{{ $value | humanizePercentage }}}} left.",
        "A full disk fails writes, and the broker stops accepting records.",
        ("`topk(10, sum by (topic) (qanat_log_size_bytes))`", "`qanat config get topic NAME`: retention"),
        ("Shorten the retention of the largest topics.", "`qanat cluster reassign` moves partitions away."),
    ),
    Alert(
        "QanatDiskFillsUp",
        "predict_linear(qanat_disk_free_bytes[1h], 4 * 3600) < 0 "
        "and qanat_disk_free_bytes / qanat_disk_size_bytes < 0.4",
        "10m",
        "warning",
        f"At this rate the disk of {_HERE} is full within four hours.",
        "More is written than retention removes.",
        ("`rate(qanat_log_appended_bytes_total[5m])`", "`qanat_log_size_bytes` by topic"),
        ("Shorten retention, or limit the producer.", "Add a broker: `qanat cluster rebalance` spreads partitions."),
    ),
    Alert(
        "QanatFlushSlow",
        f"{_FLUSH} > 0.5",
        "10m",
        "warning",
        f"fsync on {_HERE} takes {{{{ $value | humanizeDuration }}}} (p99).",
        "Producers with acks=all wait for the disk.",
        ("`qanat bench log` on that machine, at a quiet time", "other users of the disk"),
        ("Give the broker a disk of its own.", "Move leaders away: `qanat cluster drain NUMBER`."),
    ),
)
BROKER = (
    Alert(
        "QanatLoopLate",
        f"{_LATE} > 0.25",
        "10m",
        "warning",
        f"The event loop of {_HERE} is {{{{ $value | humanizeDuration }}}} late (p99).",
        "One core of the broker is full, or one request keeps all others waiting.",
        ("`sum by (api) (rate(qanat_request_loop_seconds_total[1m]))`", "the log event `slow request`"),
        ("Spread leaders: `qanat cluster rebalance`.", "Let producers send larger batches (`linger.ms`)."),
    ),
    Alert(
        "QanatProduceSlow",
        f"{_PRODUCE} > 1",
        "10m",
        "warning",
        f"Produce on {_HERE} takes {{{{ $value | humanizeDuration }}}} (p99).",
        "Producers wait: for the disk, for followers, or for the event loop.",
        ("`QanatFlushSlow`, `QanatLoopLate`, `qanat_follower_lag_records`",),
        ("Remedy what these name; where none fires, look at a follower's fetches.",),
    ),
    Alert(
        "QanatServerErrors",
        f'sum by (instance, api, error) (rate(qanat_request_errors_total{{error=~"{_SERVER_ERRORS}"}}[5m])) > 0',
        "5m",
        "warning",
        f"{_HERE} answers {{{{ $labels.api }}}} with {{{{ $labels.error }}}}.",
        "Errors that no client causes: a bug, a broken disk, or damaged batches.",
        ("the broker's log at that time",),
        ("Report it with the log, unless the disk is to blame.",),
    ),
    Alert(
        "QanatDescriptorsLow",
        "process_open_fds / process_max_fds > 0.9",
        "5m",
        "warning",
        f"{_HERE} uses {{{{ $value | humanizePercentage }}}} of its file descriptors.",
        "Without descriptors it accepts no connections and opens no segments.",
        ("`qanat_connections`, `qanat_log_segments`",),
        ("Raise the limit (`LimitNOFILE=` of systemd) and restart.", "Find the client that opens connections."),
    ),
    Alert(
        "QanatCertificateExpires",
        "qanat_certificate_expiry_timestamp_seconds - time() < 7 * 86400",
        "1h",
        "warning",
        f"The certificate of listener {{{{ $labels.listener }}}} on {_HERE} expires within a week.",
        "Clients will refuse the broker.",
        ("`qanat_certificate_reloads_failed_total`",),
        ("Put a new certificate in its place: the broker loads it without a restart.",),
    ),
    Alert(
        "QanatLoginsFail",
        "rate(qanat_authentications_failed_total[5m]) > 1",
        "10m",
        "warning",
        f"Logins fail on {_HERE}, {{{{ $value | humanize }}}} a second.",
        "A client has an old password, or somebody guesses.",
        ("the broker's log: names and addresses", "`qanat_logins_refused_total`"),
        ("Give the client its password.", "Shut the address out at the firewall."),
    ),
)
GROUPS = (
    Alert(
        "QanatGroupStopped",
        "qanat_group_lag_state == 2",
        "5m",
        "warning",
        "Group {{ $labels.group }} has records to read and does not get on.",
        "It commits nothing, or the same offset again and again (`stopped`, `stalled`).",
        ("`qanat group lag NAME`", "`qanat group describe NAME`: members, and where it stands"),
        ("Start its consumers.", "A record that it cannot process: skip it, or send it to a dead-letter topic."),
    ),
    Alert(
        "QanatGroupFallsBehind",
        "qanat_group_lag_state == 1",
        "30m",
        "warning",
        "Group {{ $labels.group }} reads, and its lag does not fall.",
        "More is written than it reads.",
        ("`qanat group lag NAME --watch`", "whether one partition has most of the lag: a hot key"),
        ("Add members, up to the number of partitions; then add partitions.", "Make its handler faster."),
    ),
    Alert(
        "QanatGroupFarBehind",
        "max by (group, topic) (qanat_group_lag_seconds) > 3600",
        "10m",
        "warning",
        "Group {{ $labels.group }} is {{ $value | humanizeDuration }} behind in {{ $labels.topic }}.",
        "Its first unread record is an hour old. Retention may delete records before they are read.",
        ("`qanat config get topic NAME`: `retention.ms`", "`qanat group lag NAME`"),
        ("Add members.", "Lengthen retention until it has caught up."),
    ),
    Alert(
        "QanatDeadLetters",
        "increase(qanat_share_dead_letters_total[15m]) > 0",
        "0m",
        "warning",
        f"Queues of {_HERE} gave up records.",
        "A record was delivered as often as it may be, or rejected.",
        ("`qanat dlq list TOPIC`: origin and reason",),
        ("Repair what refused them, then `qanat dlq redrive TOPIC`.",),
    ),
    Alert(
        "QanatTransactionHangs",
        "qanat_partitions_with_late_transactions > 0",
        "5m",
        "warning",
        f"{{{{ $value }}}} partitions of {_HERE} have a transaction that should be over.",
        "Consumers with read_committed see nothing behind it.",
        ("`qanat transaction list`", "`qanat transaction describe --partition TOPIC:NUMBER`"),
        ("`qanat transaction abort` ends it.",),
    ),
)
ALERTS: tuple[Alert, ...] = (*CLUSTER, *STORAGE, *BROKER, *GROUPS)

RECORDED = {
    "kafka_consumergroup_lag": 'label_replace(qanat_group_lag_records, "consumergroup", "$1", "group", "(.*)")',
    "kafka_consumergroup_lag_sum": (
        'label_replace(sum by (group, topic) (qanat_group_lag_records), "consumergroup", "$1", "group", "(.*)")'
    ),
    "qanat:produce_seconds:p99": _PRODUCE,
    "qanat:log_flush_seconds:p99": _FLUSH,
    "qanat:loop_late_seconds:p99": _LATE,
}
"""Recording rules: kafka_exporter's names for its dashboards, and what is expensive to compute."""
