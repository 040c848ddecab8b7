"""The cost of the metadata plane of a growing cluster, at the size of a test."""

from __future__ import annotations

from verify.clusters.growth import Growth, table


def test_the_bill_of_a_small_cluster() -> None:
    phases = {phase.name: phase for phase in Growth(4, 24).run()}

    quiet, killed, silent = (phases[name] for name in ("a quiet minute", "a broker is killed", "a broker loses power"))
    assert (quiet.bill.commits, quiet.bill.lists, quiet.bill.changes) == (0, 8, 0), "every broker lists twice a minute"
    assert 110 <= quiet.bill.renewals <= 130, "four leases, every two seconds"
    assert killed.seconds < 1.0, "its connections break, and no broker waits for its lease"
    assert killed.bill.lists == 0, "a refused broker learns why from its watch"
    assert 4.0 < silent.seconds < 8.0, "its lease expires"
    assert len(table(4, 24, list(phases.values())).splitlines()) == 6
