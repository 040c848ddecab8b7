"""Log events for operators: damaged logs, failed disks, committed changes (`telemetry.events`)."""

from __future__ import annotations

from collections.abc import Iterable

from qanat.cluster.acls import AclPlan
from qanat.cluster.credentials import CredentialPlan
from qanat.cluster.format_levels import LevelPlan
from qanat.cluster.reassignments import PartitionPlan
from qanat.cluster.topic_configs import ConfigPlan
from qanat.log.partition_log import PartitionLog
from qanat.log.segments.batch_scan import Damage
from qanat.model.errors import StorageError
from qanat.telemetry.events import log_event


def damage(log: PartitionLog, found: Iterable[Damage]) -> None:
    """Records that can no longer be read."""
    for one in found:
        log_event(
            "partition is damaged",
            level="error",
            partition=str(log.topic_partition),
            segment=log.segment_at(one.first_offset).file.path,
            byte=one.start,
            offsets=f"{one.first_offset} to {one.next_offset - 1}",
            reason=one.reason,
            advice="another replica leads and this one is fetched from it again; where there is none, look with "
            f"qanat log verify {log.directory} and restore it from a backup",
        )


def directory_failure(error: StorageError) -> None:
    """A disk that can no longer be trusted."""
    log_event(
        "data directory failed: nothing is accepted any more",
        level="error",
        reason=str(error),
        advice="check the disk, then restart the broker",
    )


def change(plan: ConfigPlan | PartitionPlan | LevelPlan | AclPlan | CredentialPlan) -> None:
    """A client's change of the metadata was committed."""
    match plan:
        case LevelPlan():
            log_event("format level raised", level_now=plan.level)
        case PartitionPlan():
            at, after = f"{plan.topic.name}-{plan.number}", plan.after
            log_event("partition changed", partition=at, replicas=list(after.replicas), leader=after.leader)
        case ConfigPlan():
            log_event("settings changed", of=plan.of, settings=dict(plan.overrides))
        case AclPlan():
            for name, entries in (("ACL created", plan.created), ("ACL deleted", plan.deleted)):
                for one in entries:
                    resource = f"{one.pattern_type} {one.resource_type} {one.name}"
                    rule = f"{one.permission} {one.principal} {one.operation} from {one.host}"
                    log_event(name, rule=rule, resource=resource)
        case CredentialPlan():
            done = "user credential deleted" if plan.is_deletion else "user credential set"
            log_event(done, user=plan.user, mechanism=plan.mechanism)
