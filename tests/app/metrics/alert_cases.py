"""For every alert: series under which it fires, and series that are near it and must keep it quiet."""

from __future__ import annotations

from typing import NamedTuple

Series = dict[str, str]
"""Values by series, in promtool's notation: `0+10x60` is 61 values, a minute apart, each 10 more."""
_AT = '{instance="a"}'


class Case(NamedTuple):
    """Both sides of an alert; judged at the minute `at`."""

    fires: Series
    quiet: Series
    at: int = 90


def _gauge(name: str, firing: str, quiet: str, labels: str = _AT) -> Case:
    return Case({f"{name}{labels}": f"{firing}x120"}, {f"{name}{labels}": f"{quiet}x120"})


def _brief(name: str, minutes: int, value: int = 1, labels: str = _AT) -> Case:
    """Fires where it lasts, and not where it has lasted for too short a time."""
    short = f"0x{89 - minutes} {value}x{minutes + 30}"
    return Case({f"{name}{labels}": f"{value}x120"}, {f"{name}{labels}": short})


def _counter(name: str, labels: str = _AT) -> Case:
    return Case({f"{name}{labels}": "0x85 1x40"}, {f"{name}{labels}": "5x120"})


def _histogram(name: str, slow: str, fast: str, labels: str = "") -> Case:
    """All observations below the bucket `slow`, or below `fast`; the bounds around them are there as well."""

    def series(reached: str) -> Series:
        rows = {}
        is_reached = False
        for bound in (fast, slow, "+Inf"):
            is_reached = is_reached or bound == reached
            rows[f'{name}_bucket{{instance="a",le="{bound}"{labels}}}'] = "0+60x120" if is_reached else "0x120"
        return rows

    return Case(series(slow), series(fast))


CASES: dict[str, Case] = {
    "QanatBrokerDown": _gauge("up", "0", "1", '{instance="a",job="qanat"}'),
    "QanatPartitionLeaderless": _brief("qanat_partitions_leaderless", 0),
    "QanatPartitionsBelowMinInSync": _brief("qanat_partitions_below_min_in_sync", 0),
    "QanatNoController": _gauge("qanat_is_controller", "0", "1"),
    "QanatUncleanElection": _counter("qanat_unclean_elections_total"),
    "QanatElectionsWaiting": _brief("qanat_elections_waiting", 4),
    "QanatUnderReplicated": _brief("qanat_partitions_under_replicated", 9),
    "QanatLogDirectoryFailed": _gauge("qanat_log_directory_failed", "1", "0"),
    "QanatPartitionsOffline": _brief("qanat_log_partitions_offline", 0),
    "QanatPartitionsDamaged": _brief("qanat_log_partitions_damaged", 4),
    "QanatDiskAlmostFull": Case(
        {f"qanat_disk_free_bytes{_AT}": "9x120", f"qanat_disk_size_bytes{_AT}": "100x120"},
        {f"qanat_disk_free_bytes{_AT}": "11x120", f"qanat_disk_size_bytes{_AT}": "100x120"},
    ),
    "QanatDiskFillsUp": Case(
        {f"qanat_disk_free_bytes{_AT}": "39000-200x120", f"qanat_disk_size_bytes{_AT}": "100000x120"},
        # Half full: a day of backlog is no emergency.
        {f"qanat_disk_free_bytes{_AT}": "90000-200x120", f"qanat_disk_size_bytes{_AT}": "100000x120"},
    ),
    "QanatFlushSlow": _histogram("qanat_log_flush_seconds", "1.0", "0.1"),
    "QanatLoopLate": _histogram("qanat_loop_late_seconds", "1.0", "0.1"),
    "QanatProduceSlow": _histogram("qanat_request_duration_seconds", "5.0", "0.5", ',api="Produce"'),
    "QanatServerErrors": Case(
        {'qanat_request_errors_total{instance="a",api="Produce",error="KAFKA_STORAGE_ERROR"}': "0+1x120"},
        # What clients cause is their own business.
        {'qanat_request_errors_total{instance="a",api="Produce",error="NOT_LEADER_OR_FOLLOWER"}': "0+1x120"},
    ),
    "QanatDescriptorsLow": Case(
        {f"process_open_fds{_AT}": "95x120", f"process_max_fds{_AT}": "100x120"},
        {f"process_open_fds{_AT}": "89x120", f"process_max_fds{_AT}": "100x120"},
    ),
    "QanatCertificateExpires": Case(
        {'qanat_certificate_expiry_timestamp_seconds{instance="a",listener="CLIENTS"}': "600000x120"},
        {'qanat_certificate_expiry_timestamp_seconds{instance="a",listener="CLIENTS"}': "700000x120"},
    ),
    "QanatLoginsFail": Case(
        {f"qanat_authentications_failed_total{_AT}": "0+120x120"},
        {f"qanat_authentications_failed_total{_AT}": "0+30x120"},
    ),
    "QanatGroupStopped": _brief("qanat_group_lag_state", 4, 2, '{group="g"}'),
    "QanatGroupFallsBehind": _brief("qanat_group_lag_state", 29, 1, '{group="g"}'),
    "QanatGroupFarBehind": _gauge("qanat_group_lag_seconds", "3700", "3500", '{group="g",topic="t"}'),
    "QanatDeadLetters": _counter("qanat_share_dead_letters_total"),
    "QanatTransactionHangs": _brief("qanat_partitions_with_late_transactions", 4),
}
