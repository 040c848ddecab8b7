"""All bugs of the bank, and how the simulation looks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from msgspec import Struct

from verify.clusters.bug_bank import durability_bugs as durability
from verify.clusters.bug_bank import election_bugs as election
from verify.clusters.bug_bank import replication_bugs as replication
from verify.clusters.bug_bank import transaction_bugs as transaction
from verify.clusters.bug_bank.bug import Bug, Patches
from verify.clusters.plan import Plan
from verify.clusters.run import ClusterRun, Report


def _copies(*faults: str, **wanted: object) -> Callable[[Plan], bool]:
    """Plans of three copies without much else, with one of these faults, and with this."""

    def fits(plan: Plan) -> bool:
        is_small = plan.brokers == plan.replicas == 3 and plan.producers + plan.transactors < 4
        is_hurt = not faults or any(name in plan.faults for name in faults)
        wishes = {"has_operator": False, "is_synced": True, **wanted}
        return is_small and is_hurt and all(getattr(plan, name) == value for name, value in wishes.items())

    return fits


def _copied_once(*faults: str, **wanted: object) -> Callable[[Plan], bool]:
    """Plans of two copies, of which one may lag while the other leads, with all of these faults."""

    def fits(plan: Plan) -> bool:
        is_hurt = all(name in plan.faults for name in faults)
        return plan.replicas == 2 and is_hurt and all(getattr(plan, name) == value for name, value in wanted.items())

    return fits


def _sole_copies(plan: Plan) -> bool:
    return plan.replicas == 1 and "disk error" in plan.faults


BUGS = (
    Bug(
        "C01",
        replication.truncate_to_the_high_watermark,
        32,
        _copies("kill", "power loss", "pause", "partition", "clean restart"),
    ),
    Bug("C06", replication.never_truncate, 38, _copies("kill", "power loss", "pause", "partition")),
    Bug("C02", replication.write_in_the_epoch_before, 155, _copies("kill", "power loss", "pause", "partition")),
    Bug("C05", replication.forget_where_an_epoch_began, 235, _copied_once("pause")),
    Bug("C09", replication.commit_by_the_set_that_is_wished_for, 124, _copies("pause", "partition")),
    Bug("C09", replication.commit_by_the_set_that_is_stored, 2517, _copies("store falls silent")),
    Bug("C09", replication.forget_a_change_without_an_answer, 2614, _copies("store falls silent")),
    Bug("C11", replication.join_before_the_epoch_is_reached, 201, _copies("kill", "power loss", "power loss of all")),
    Bug("C11", replication.join_by_asking, 2, _copies("kill", "pause", "partition")),
    Bug("C10", replication.believe_the_process_before, 717, _copies("lost disk")),
    Bug("C12", replication.commit_with_too_few, 3, _copies()),
    Bug("C06", replication.take_answers_of_the_leader_before, 600, _copies()),
    Bug("C02", replication.lead_on_after_a_restart, 11260, _copies("power loss", "power loss of all", work_s=0.01)),
    Bug("C22", replication.show_what_is_not_committed, 3, _copies()),
    Bug("C30", replication.forget_producers_on_followers, 3, _copies()),
    Bug("C19", replication.mix_topics_of_one_name, 10, _copies(has_operator=True)),
    Bug("C65", durability.go_on_after_a_failed_sync, 67, _sole_copies),
    Bug("T7", durability.follow_without_fsync, 2481, _copies("power loss of all", work_s=0.01)),
    Bug(
        "T7", durability.commit_without_the_leaders_disk, 4073, _copies("power loss", "power loss of all", work_s=0.01)
    ),
    Bug("C17", durability.acknowledge_when_leadership_ends, 38, _copies("pause", "partition")),
    Bug("C12", durability.acknowledge_what_is_written, 2, _copies()),
    Bug("C50", durability.coordinate_before_it_is_durable, 1037, _copies("kill", "power loss", "pause", transactors=1)),
    Bug("C14", election.elect_whoever_is_there, 98, _copies()),
    Bug("C10", election.take_an_empty_disk_for_the_old_one, 373, _copies("lost disk")),
    Bug("C13", election.take_a_crash_for_a_stop, 910, _copies("power loss", is_synced=False)),
    Bug("T8", election.trust_any_disk_that_is_back, 2, _copies("lying disk")),
    Bug("C70", election.compare_no_extents, 120, _copies("lying disk")),
    Bug("C10", election.take_a_log_made_anew_for_the_old_one, 867, _copies("lying disk")),
    Bug("C23", election.report_no_faults, 24, _copies("lying disk")),
    Bug("C61", durability.believe_any_base_offset, 562, _copies("lying disk")),
    Bug("C13", election.let_eligible_replicas_stay, 98, _copies()),
    Bug("C16", election.control_by_lease_alone, 98, _copies("pause", "store cut")),
    Bug("C81", election.change_sets_without_comparing, 790, _copies("pause", "store cut")),
    Bug("C02", election.keep_an_epoch_when_the_leader_changes, 2, _copies()),
    Bug("C13", election.drop_a_member_without_a_word, 98, _copies()),
    Bug(
        "C20",
        election.let_a_newcomer_lead_on,
        12212,
        _copied_once("kill", "pause", "power loss", has_operator=True),
    ),
    Bug("C18", election.evict_by_one_witness, 143, _copies("refused link")),
    Bug("C80", election.never_reconcile, 317, _copies("watch gap")),
    Bug(
        "C38",
        transaction.send_markers_before_the_verdict_is_durable,
        2318,
        _copies("kill", "power loss", "pause", transactors=1),
    ),
    Bug("C39", transaction.give_up_a_marker, 9030, _copies("kill", "power loss", "pause", transactors=1, rivals=1)),
    Bug(
        "C38", transaction.leave_prepared_transactions_alone, 534, _copies("kill", "power loss", "pause", transactors=1)
    ),
    Bug("C50", transaction.load_nothing, 3, _copies("kill", "power loss", "pause", transactors=1)),
    Bug("C34", transaction.abort_without_fencing, 4602, _copies(transactors=1, rivals=1)),
    Bug(
        "C38",
        transaction.keep_a_coordinator_that_was_replaced,
        1879,
        _copies("kill", "power loss", "pause", transactors=1),
    ),
)


class Found(Struct, frozen=True):
    """Where a bug showed, or that it did not."""

    seeds: int
    """How many lives it took."""
    report: Report | None


def fitting_seeds(bug: Bug, first: int = 1) -> Iterator[int]:
    """Seeds in which the bug could show."""
    return (seed for seed in count(first) if bug.may_show(Plan.of(seed)))


def look_for(bug: Bug, most_seeds: int, first: int = 1) -> Found:
    """Run lives with the bug in the product until one of them goes wrong."""
    lives = 0
    with Patches() as patches:
        bug.put_in(patches)
        for seed in fitting_seeds(bug, first):
            lives += 1
            report = ClusterRun(seed, stops_early=True).run()
            if report.problems:
                return Found(lives, report)
            if lives == most_seeds:
                break
    return Found(lives, None)
