"""All bugs of the bank, and the search for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from msgspec import Struct

from verify.clusters.bug_bank import access_bugs as access
from verify.clusters.bug_bank import durability_bugs as durability
from verify.clusters.bug_bank import election_bugs as election
from verify.clusters.bug_bank import replication_bugs as replication
from verify.clusters.bug_bank import transaction_bugs as transaction
from verify.clusters.bug_bank.bug import Bug, Patches
from verify.clusters.plan import Plan
from verify.clusters.run import ClusterRun, Report


def _three_replicas(*faults: str, **wanted: object) -> Callable[[Plan], bool]:
    """Small plans with three replicas, one of these faults, and these values."""

    def fits(plan: Plan) -> bool:
        is_small = plan.brokers == plan.replicas == 3 and plan.producers + plan.transactors < 4
        has_fault = not faults or any(name in plan.faults for name in faults)
        values = {"has_operator": False, "is_synced": True, **wanted}
        return is_small and has_fault and all(getattr(plan, name) == value for name, value in values.items())

    return fits


def _two_replicas(*faults: str, **wanted: object) -> Callable[[Plan], bool]:
    """Plans with two replicas, of which one may lag while the other leads, and all of these faults."""

    def fits(plan: Plan) -> bool:
        has_faults = all(name in plan.faults for name in faults)
        return plan.replicas == 2 and has_faults and all(getattr(plan, name) == value for name, value in wanted.items())

    return fits


def _sole_replica(plan: Plan) -> bool:
    return plan.replicas == 1 and "disk error" in plan.faults


def _with_users(*faults: str) -> Callable[[Plan], bool]:
    """Plans with users, more than one broker, and one of these faults."""

    def fits(plan: Plan) -> bool:
        return plan.has_users and plan.brokers > 1 and (not faults or any(name in plan.faults for name in faults))

    return fits


BUGS = (
    Bug(
        "C01",
        replication.truncate_to_the_high_watermark,
        32,
        _three_replicas("kill", "power loss", "pause", "partition", "clean restart"),
    ),
    Bug("C06", replication.never_truncate, 38, _three_replicas("kill", "power loss", "pause", "partition")),
    Bug("C02", replication.write_in_the_epoch_before, 155, _three_replicas("kill", "power loss", "pause", "partition")),
    Bug("C05", replication.forget_where_an_epoch_began, 235, _two_replicas("pause")),
    Bug("C09", replication.commit_by_the_wanted_isr, 124, _three_replicas("pause", "partition")),
    Bug("C09", replication.commit_by_the_stored_isr, 2517, _three_replicas("store falls silent")),
    Bug("C09", replication.forget_a_change_without_an_answer, 2614, _three_replicas("store falls silent")),
    Bug(
        "C11",
        replication.join_before_the_epoch_is_reached,
        201,
        _three_replicas("kill", "power loss", "power loss of all"),
    ),
    Bug("C11", replication.join_by_fetching, 2, _three_replicas("kill", "pause", "partition")),
    Bug("C10", replication.believe_the_process_before, 717, _three_replicas("lost disk")),
    Bug("C12", replication.commit_with_too_few, 3, _three_replicas()),
    Bug("C06", replication.take_answers_of_the_leader_before, 600, _three_replicas()),
    Bug(
        "C02",
        replication.lead_on_after_a_restart,
        12654,
        _three_replicas("power loss", "power loss of all", work_s=0.01),
    ),
    Bug("C22", replication.show_what_is_not_committed, 3, _three_replicas()),
    Bug("C30", replication.forget_producers_on_followers, 3, _three_replicas()),
    Bug("C19", replication.mix_topics_of_one_name, 10, _three_replicas(has_operator=True)),
    Bug("C65", durability.go_on_after_a_failed_sync, 67, _sole_replica),
    Bug("T7", durability.follow_without_fsync, 2481, _three_replicas("power loss of all", work_s=0.01)),
    Bug(
        "T7",
        durability.commit_without_the_leaders_disk,
        4073,
        _three_replicas("power loss", "power loss of all", work_s=0.01),
    ),
    Bug("C17", durability.acknowledge_when_leadership_ends, 38, _three_replicas("pause", "partition")),
    Bug("C12", durability.acknowledge_what_is_written, 2, _three_replicas()),
    Bug(
        "C50",
        durability.coordinate_before_it_is_durable,
        1037,
        _three_replicas("kill", "power loss", "pause", transactors=1),
    ),
    Bug("C14", election.elect_any_replica, 98, _three_replicas()),
    Bug("C10", election.take_an_empty_disk_for_the_old_one, 373, _three_replicas("lost disk")),
    Bug("C13", election.take_a_crash_for_a_stop, 23, _three_replicas("last one standing", is_synced=False)),
    Bug("T8", election.trust_any_disk_that_is_back, 2, _three_replicas("lying disk")),
    Bug("C70", election.compare_no_extents, 120, _three_replicas("lying disk")),
    Bug("C10", election.take_a_log_made_anew_for_the_old_one, 867, _three_replicas("lying disk")),
    Bug("C23", election.report_no_faults, 24, _three_replicas("lying disk")),
    Bug("C61", durability.believe_any_base_offset, 562, _three_replicas("lying disk")),
    Bug("C13", election.let_eligible_replicas_stay, 98, _three_replicas()),
    Bug("C16", election.control_by_lease_alone, 98, _three_replicas("pause", "store cut")),
    Bug("C81", election.change_isr_without_comparing, 790, _three_replicas("pause", "store cut")),
    Bug("C02", election.keep_an_epoch_when_the_leader_changes, 2, _three_replicas()),
    Bug("C13", election.drop_members_silently, 98, _three_replicas()),
    Bug(
        "C20",
        election.let_a_newcomer_lead_on,
        35577,
        _two_replicas("kill", "pause", "power loss", has_operator=True),
    ),
    Bug("C18", election.evict_by_one_witness, 143, _three_replicas("refused link")),
    Bug("C80", election.never_reconcile, 317, _three_replicas("watch gap")),
    Bug(
        "C38",
        transaction.send_markers_before_the_verdict_is_durable,
        2318,
        _three_replicas("kill", "power loss", "pause", transactors=1),
    ),
    Bug(
        "C39",
        transaction.give_up_a_marker,
        9030,
        _three_replicas("kill", "power loss", "pause", transactors=1, rivals=1),
    ),
    Bug(
        "C38",
        transaction.leave_prepared_transactions_alone,
        534,
        _three_replicas("kill", "power loss", "pause", transactors=1),
    ),
    Bug("C50", transaction.load_nothing, 3, _three_replicas("kill", "power loss", "pause", transactors=1)),
    Bug("C34", transaction.abort_without_fencing, 4602, _three_replicas(transactors=1, rivals=1)),
    Bug(
        "C38",
        transaction.keep_a_coordinator_that_was_replaced,
        1879,
        _three_replicas("kill", "power loss", "pause", transactors=1),
    ),
    Bug("C87", access.keep_decisions_of_old_rules, 8, _with_users()),
    Bug("C87", access.wake_without_a_look_at_the_rules, 8, _with_users()),
    Bug("C88", access.start_without_denials, 12, _with_users("kill", "clean restart", "power loss")),
    Bug("C88", access.keep_rules_that_are_deleted, 8, _with_users()),
    Bug("C88", access.create_by_what_is_known, 80, _with_users("watch gap")),
    Bug("C88", access.delete_by_what_is_known, 89, _with_users("watch gap")),
    Bug("C80", access.take_deletions_for_seen, 153, _with_users("watch gap")),
)


class Found(Struct, frozen=True):
    """The run in which a bug showed, or that none did."""

    seeds: int
    """How many runs it took."""
    report: Report | None


def fitting_seeds(bug: Bug, first: int = 1) -> Iterator[int]:
    """Seeds in which the bug could show."""
    return (seed for seed in count(first) if bug.may_show(Plan.of(seed)))


def look_for(bug: Bug, most_seeds: int, first: int = 1) -> Found:
    """Run seeds with the bug in the product until one of them fails."""
    runs = 0
    with Patches() as patches:
        bug.put_in(patches)
        for seed in fitting_seeds(bug, first):
            runs += 1
            report = ClusterRun(seed, stops_early=True).run()
            if report.problems:
                return Found(runs, report)
            if runs == most_seeds:
                break
    return Found(runs, None)
