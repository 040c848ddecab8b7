"""The dashboards: their panels, and the query of each."""

from __future__ import annotations

from typing import Literal, NamedTuple

Unit = Literal["short", "s", "bytes", "Bps", "percentunit", "reqps", "ops", "dateTimeAsIso"]


class Panel(NamedTuple):
    """One panel: its queries, each with the legend of its series."""

    title: str
    unit: Unit
    queries: tuple[tuple[str, str], ...]


class Dashboard(NamedTuple):
    """One dashboard."""

    name: str
    """Of its file, and its permanent id."""
    title: str
    panels: tuple[Panel, ...]


def _p99(metric: str, by: str = "instance", where: str = "") -> str:
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket{where}[5m])))"


CLUSTER = Dashboard(
    "qanat-cluster",
    "Qanat: cluster",
    (
        Panel("Brokers up", "short", (('sum(up{job="qanat"})', "brokers"),)),
        Panel("Topics", "short", (("max(qanat_topics)", "topics"),)),
        Panel(
            "Partitions in trouble",
            "short",
            (
                ("sum(qanat_partitions_leaderless)", "no leader"),
                ("sum(qanat_partitions_below_min_in_sync)", "below min.insync.replicas"),
                ("sum(qanat_partitions_under_replicated)", "under-replicated"),
                ("sum(qanat_elections_waiting)", "elections waiting"),
            ),
        ),
        Panel("Records written", "ops", (("sum(rate(qanat_log_appended_records_total[1m]))", "records"),)),
        Panel(
            "Bytes",
            "Bps",
            (
                ("sum(rate(qanat_log_appended_bytes_total[1m]))", "written"),
                ('sum(rate(qanat_response_bytes_total{api="Fetch"}[1m]))', "fetched"),
                ("sum(rate(qanat_replicated_bytes_total[1m]))", "replicated"),
            ),
        ),
        Panel(
            "Produce, p99", "s", ((_p99("qanat_request_duration_seconds", where='{api="Produce"}'), "{{instance}}"),)
        ),
        Panel("Leaders", "short", (("qanat_partitions_led", "{{instance}}"),)),
        Panel("The slowest follower", "short", (("qanat_follower_lag_records", "{{instance}}"),)),
        Panel(
            "Replicas in and out of sync",
            "short",
            (
                ("increase(qanat_in_sync_shrinks_total[5m])", "out, {{instance}}"),
                ("increase(qanat_in_sync_expansions_total[5m])", "in, {{instance}}"),
            ),
        ),
        Panel("Free disk", "percentunit", (("qanat_disk_free_bytes / qanat_disk_size_bytes", "{{instance}}"),)),
    ),
)
BROKER = Dashboard(
    "qanat-broker",
    "Qanat: brokers",
    (
        Panel(
            "Requests", "reqps", (("sum by (instance, api) (rate(qanat_requests_total[1m]))", "{{api}}, {{instance}}"),)
        ),
        Panel(
            "Errors",
            "ops",
            (
                (
                    "sum by (instance, api, error) (rate(qanat_request_errors_total[1m]))",
                    "{{api}} {{error}}, {{instance}}",
                ),
            ),
        ),
        Panel(
            "Request time, p99",
            "s",
            ((_p99("qanat_request_duration_seconds", "instance, api"), "{{api}}, {{instance}}"),),
        ),
        Panel(
            "Share of a core by API",
            "percentunit",
            (("sum by (instance, api) (rate(qanat_request_loop_seconds_total[1m]))", "{{api}}, {{instance}}"),),
        ),
        Panel("Event loop late, p99", "s", ((_p99("qanat_loop_late_seconds"), "{{instance}}"),)),
        Panel("CPU", "percentunit", (("rate(process_cpu_seconds_total[1m])", "{{instance}}"),)),
        Panel("Memory", "bytes", (("process_resident_memory_bytes", "{{instance}}"),)),
        Panel("Flush, p99", "s", ((_p99("qanat_log_flush_seconds"), "{{instance}}"),)),
        Panel("Unflushed", "bytes", (("qanat_log_unflushed_bytes", "{{instance}}"),)),
        Panel("Cold reads", "ops", (("rate(qanat_log_cold_reads_total[1m])", "{{instance}}"),)),
        Panel("Connections", "short", (("qanat_connections", "{{instance}}"),)),
        Panel("File descriptors", "percentunit", (("process_open_fds / process_max_fds", "{{instance}}"),)),
    ),
)
TOPICS = Dashboard(
    "qanat-topics",
    "Qanat: topics",
    (
        Panel(
            "Records a second, all replicas",
            "ops",
            (("topk(20, sum by (topic) (deriv(qanat_log_high_watermark[5m])))", "{{topic}}"),),
        ),
        Panel("Size, all replicas", "bytes", (("topk(20, sum by (topic) (qanat_log_size_bytes))", "{{topic}}"),)),
        Panel(
            "Growth",
            "Bps",
            (("topk(20, sum by (topic) (deriv(qanat_log_size_bytes[10m])))", "{{topic}}"),),
        ),
        Panel("Segments", "short", (("topk(20, sum by (topic) (qanat_log_segments))", "{{topic}}"),)),
        Panel(
            "Records kept, all replicas",
            "short",
            (("topk(20, sum by (topic) (qanat_log_end_offset - qanat_log_start_offset))", "{{topic}}"),),
        ),
    ),
)
GROUPS = Dashboard(
    "qanat-groups",
    "Qanat: groups and queues",
    (
        Panel("Time lag", "s", (("topk(20, max by (group) (qanat_group_lag_seconds))", "{{group}}"),)),
        Panel("Lag", "short", (("topk(20, sum by (group) (qanat_group_lag_records))", "{{group}}"),)),
        Panel(
            "Groups in trouble",
            "short",
            (
                ("count(qanat_group_lag_state == 2) or vector(0)", "stopped or stalled"),
                ("count(qanat_group_lag_state == 1) or vector(0)", "falling behind or reset"),
            ),
        ),
        Panel("Groups by state", "short", (("sum by (state) (qanat_groups)", "{{state}}"),)),
        Panel("Members", "short", (("sum(qanat_group_members)", "members"),)),
        Panel("Rebalances", "ops", (("sum(rate(qanat_group_generations_total[5m]))", "rebalances"),)),
        Panel("Records held by queues", "short", (("sum by (group) (qanat_share_records_held)", "{{group}}"),)),
        Panel(
            "Queues",
            "ops",
            (
                ("sum(rate(qanat_share_redelivered_total[5m]))", "redelivered"),
                ("sum(rate(qanat_share_dead_letters_total[5m]))", "dead letters"),
            ),
        ),
        Panel(
            "Transactions",
            "ops",
            (("sum by (outcome) (rate(qanat_transactions_ended_total[5m]))", "{{outcome}}"),),
        ),
        Panel("Open transactions", "short", (("sum(qanat_transactions_open)", "open"),)),
    ),
)
SPARK = Dashboard(
    "qanat-spark",
    "Qanat: Spark pipelines",
    (
        Panel("Up", "short", (("qanat_pipeline_up", "{{pipeline}}"),)),
        Panel("Time lag", "s", (("qanat_pipeline_lag_seconds", "{{query}}"),)),
        Panel("Lag", "short", (("qanat_pipeline_lag_records", "{{query}}"),)),
        Panel("Rows read", "ops", (("rate(qanat_pipeline_rows_total[5m])", "{{query}}"),)),
        Panel("Rows written", "ops", (("rate(qanat_pipeline_written_rows_total[5m])", "{{query}}"),)),
        Panel("Micro-batch", "s", (("qanat_pipeline_batch_seconds", "{{query}}"),)),
        Panel("State", "bytes", (("qanat_pipeline_state_bytes", "{{query}}"),)),
        Panel("Watermark delay", "s", (("qanat_pipeline_watermark_delay_seconds", "{{query}}"),)),
        Panel("Restarts", "short", (("increase(qanat_pipeline_restarts_total[1h])", "{{pipeline}}"),)),
    ),
)
DASHBOARDS: tuple[Dashboard, ...] = (CLUSTER, BROKER, TOPICS, GROUPS, SPARK)
