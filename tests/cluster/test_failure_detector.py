"""Two witnesses evict a broker, one never does; a wrong eviction is not repeated soon."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace
from tests.cluster.images import apply, image_with, registration

from qanat.cluster import keys, values
from qanat.cluster.failure_detector import (
    CHECKERS,
    FIRST_BACK_OFF_MS,
    LONGEST_BACK_OFF_MS,
    QUIET_MS,
    REPORT_MS,
    FailureDetector,
    Verdict,
    back_off_ms,
)
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Absent, Commit, Delete, Entry, LeaseId, Put, Revision

SUSPECT, US, OTHER = 0, 1, 2
OURS = Revision(1)
LEASE = LeaseId(7)


class World:
    """A store's image and the detectors of the brokers that look at it."""

    def __init__(self, brokers: int = 3) -> None:
        self.image: MetadataImage = image_with(range(brokers))
        self.detectors = {node_id: FailureDetector(node_id, self.image) for node_id in range(brokers)}

    def commit(self, judgement: Commit, now_ms: int) -> None:
        before = dict(self.image.revisions)
        apply(self.image, judgement.operations)
        after = self.image.revisions
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) == after.get(name):
                continue
            key = keys.parse(name)
            if isinstance(key, keys.FailureReportKey | keys.EvictionKey):
                for detector in self.detectors.values():
                    detector.note(key, now_ms)

    def testify(self, witness: int, now_ms: int, suspect: int = SUSPECT) -> None:
        self.commit(self.detectors[witness].report(suspect, OURS, LEASE, now_ms), now_ms)

    def evict(self, witness: int, now_ms: int) -> None:
        report = self.image.unchanged(keys.failure_report(SUSPECT))
        self.commit(self.detectors[witness].eviction(SUSPECT, OURS, report, now_ms), now_ms)

    def register(self, incarnation: str = f"i{SUSPECT}") -> None:
        again = replace(registration(SUSPECT), incarnation=incarnation)
        apply(self.image, [Put(keys.broker(SUSPECT), values.encode(again))])

    def decide(self, witness: int, now_ms: int) -> Verdict:
        return self.detectors[witness].decide(SUSPECT, now_ms)

    def evict_by_two(self, now_ms: int) -> None:
        self.testify(US, now_ms)
        assert self.decide(OTHER, now_ms) is Verdict.EVICT
        self.evict(OTHER, now_ms)


def test_one_witness_testifies_and_the_second_evicts() -> None:
    world = World()

    assert world.decide(US, 0) is Verdict.REPORT
    world.testify(US, 0)
    assert world.decide(US, 1) is Verdict.LEAVE, "its own word is not a second one"
    assert world.decide(OTHER, 1) is Verdict.EVICT
    world.evict(OTHER, 1)

    assert SUSPECT not in world.image.brokers
    assert SUSPECT not in world.image.failure_reports, "the suspicion goes with the eviction"


def test_of_two_who_testify_at_once_the_second_finds_the_word_of_the_first() -> None:
    world = World()
    first, second = (world.detectors[one].report(SUSPECT, OURS, LEASE, 0) for one in (US, OTHER))
    assert first.compares[0] == second.compares[0] == Absent(keys.failure_report(SUSPECT)), "so the store takes one"
    (put,) = first.operations
    assert isinstance(put, Put)
    found = Entry(put.key, put.value, Revision(9), Revision(9), LEASE)

    assert world.detectors[OTHER].is_shared(SUSPECT, found)
    assert not world.detectors[US].is_shared(SUSPECT, found), "its own word is not a second one"
    assert not world.detectors[OTHER].is_shared(SUSPECT, None)
    assert not world.detectors[OTHER].is_shared(SUSPECT, replace(found, value=b"{"))
    world.register()
    assert not world.detectors[OTHER].is_shared(SUSPECT, found), "it is about the registration before"


@pytest.mark.parametrize("brokers", [1, 2])
def test_where_there_cannot_be_two_witnesses_the_lease_decides(brokers: int) -> None:
    world = World(brokers)

    assert not world.detectors[brokers - 1].may_evict(SUSPECT, 0)
    assert world.decide(brokers - 1, 0) is Verdict.LEAVE


def test_nobody_evicts_itself_or_a_broker_that_is_not_registered() -> None:
    world = World()

    assert not world.detectors[US].may_evict(US, 0)
    assert not world.detectors[US].may_evict(17, 0)


def test_a_broker_that_is_not_registered_is_no_witness() -> None:
    world = World(4)
    world.testify(OTHER, 0)
    apply(world.image, [Delete(keys.broker(OTHER))])
    assert world.decide(US, 1) is Verdict.REPORT, "the other one is gone, and its word with it"

    apply(world.image, [Delete(keys.broker(US))])
    assert world.decide(US, 1) is Verdict.LEAVE


def test_a_suspicion_counts_for_some_seconds_by_the_readers_own_clock() -> None:
    world = World()
    world.testify(US, 1_000)

    assert world.decide(OTHER, 1_000 + REPORT_MS - 1) is Verdict.EVICT
    assert world.decide(OTHER, 1_000 + REPORT_MS) is Verdict.REPORT


def test_a_suspicion_against_an_earlier_registration_counts_no_more() -> None:
    world = World()
    world.testify(US, 0)
    world.register()
    apply(world.image, [Delete(keys.broker(SUSPECT))])
    world.register()

    assert world.decide(OTHER, 1) is Verdict.REPORT


def test_a_suspicion_that_is_never_shared_is_written_ever_more_seldom() -> None:
    world = World()
    written = []
    for now_ms in range(0, 3_600_000, 1_000):
        if world.decide(US, now_ms) is Verdict.REPORT:
            written.append(now_ms)
            world.testify(US, now_ms)
            apply(world.image, [Delete(keys.failure_report(SUSPECT))])

    pauses = [later - earlier for earlier, later in pairwise(written)]
    assert pauses[:6] == [10_000, 20_000, 40_000, 80_000, 160_000, 300_000]
    assert set(pauses[6:]) == {LONGEST_BACK_OFF_MS}


def test_a_suspicion_that_was_never_shared_is_forgotten_after_a_quiet_time() -> None:
    world = World()
    world.testify(US, 0)
    world.testify(US, QUIET_MS)
    apply(world.image, [Delete(keys.failure_report(SUSPECT))])

    assert world.decide(US, QUIET_MS + FIRST_BACK_OFF_MS) is Verdict.REPORT, "that counts as the first again"


def test_a_process_that_was_evicted_wrongly_is_left_alone_for_ever_longer_by_everybody() -> None:
    world = World(4)
    now_ms, pauses = 0, []
    for _ in range(8):
        world.evict_by_two(now_ms)
        world.register()
        begin_ms = now_ms
        while not all(world.detectors[one].may_evict(SUSPECT, now_ms) for one in (US, OTHER, 3)):
            assert not any(world.detectors[one].may_evict(SUSPECT, now_ms) for one in (US, OTHER, 3))
            now_ms += 1_000
        pauses.append(now_ms - begin_ms)

    assert pauses == [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000]


def test_a_wrong_eviction_long_ago_counts_no_more() -> None:
    world = World()
    world.evict_by_two(0)
    world.register()
    world.evict_by_two(FIRST_BACK_OFF_MS)
    world.register()
    assert world.image.evictions[SUSPECT].times == 2

    world.evict_by_two(FIRST_BACK_OFF_MS + QUIET_MS)
    assert world.image.evictions[SUSPECT].times == 1


def test_a_process_that_was_started_anew_is_evicted_at_once_when_it_ends() -> None:
    world = World()
    world.evict_by_two(0)
    world.register("another process")

    assert world.decide(US, 1) is Verdict.REPORT
    world.evict_by_two(1)
    assert world.image.evictions[SUSPECT] == values.Eviction(incarnation="another process", times=1)


def test_a_broker_that_starts_counts_a_back_off_from_when_it_reads_of_it() -> None:
    world = World()
    world.evict_by_two(0)
    world.register()
    newcomer = world.detectors[US] = FailureDetector(US, world.image)
    newcomer.note(keys.EvictionKey(SUSPECT), 500_000)

    assert not newcomer.may_evict(SUSPECT, 500_000 + FIRST_BACK_OFF_MS - 1)
    assert newcomer.may_evict(SUSPECT, 500_000 + FIRST_BACK_OFF_MS)


def test_an_eviction_compares_both_registrations_and_the_other_word_and_takes_the_controller_along() -> None:
    world = World()
    apply(world.image, [Put(keys.CONTROLLER, values.encode(values.Controller(node_id=SUSPECT)))])
    world.testify(US, 0)
    report = world.image.unchanged(keys.failure_report(SUSPECT))
    judgement = world.detectors[OTHER].eviction(SUSPECT, OURS, report, 1)

    assert {compare.key for compare in judgement.compares} == {
        keys.broker(SUSPECT),
        keys.broker(OTHER),
        keys.failure_report(SUSPECT),
        keys.eviction(SUSPECT),
        keys.CONTROLLER,
    }
    assert Delete(keys.CONTROLLER) in judgement.operations


def test_a_suspicion_asks_few_brokers_however_many_there_are() -> None:
    world = World(50)
    for witness in (7, 48):
        world.testify(witness, 0)
        asked = [one for one, detector in world.detectors.items() if detector.should_check(SUSPECT)]
        assert len(asked) == CHECKERS
        assert witness not in asked
        assert SUSPECT not in asked

    apply(world.image, [Delete(keys.failure_report(SUSPECT))])
    assert not any(detector.should_check(SUSPECT) for detector in world.detectors.values())


def test_a_back_off_has_a_bound() -> None:
    assert [back_off_ms(times) for times in (1, 2, 3)] == [10_000, 20_000, 40_000]
    assert back_off_ms(10**9) == LONGEST_BACK_OFF_MS
