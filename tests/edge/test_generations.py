"""Generations of a consumer application: what is served changes at READY, and at nothing else."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from qanat.edge.generations import FIRST, NONE, Generations, Held
from qanat.model.ids import TopicPartition

P0, P1, P2 = (TopicPartition("prices", number) for number in range(3))


def test_a_refresh_fills_a_new_generation_and_ready_serves_it() -> None:
    begun = Generations().reset("r1", [P0, P1])
    assert begun.held(P0) == begun.held(P1) == Held(FIRST, 2)
    assert begun.held(P2) == Held()
    assert dict(begun.under_way) == {"r1": 2}

    done = begun.ready("r1", [P0, P1])
    assert done.held(P0) == done.held(P1) == Held(2, NONE)
    assert (done.served_refresh(P0), done.filling_refresh(P0), dict(done.under_way)) == ("r1", "", {})


def test_the_same_reset_and_ready_change_nothing() -> None:
    begun = Generations().reset("r1", [P0])
    assert begun.reset("r1", [P0]) is begun
    done = begun.ready("r1", [P0])
    assert done.ready("r1", [P0]) is done
    assert done.reset("r1", [P0]) is done, "it is served already"


def test_a_partition_that_comes_later_joins_the_generation_of_its_refresh() -> None:
    begun = Generations().reset("r1", [P0]).reset("r1", [P1])
    assert begun.held(P0) == begun.held(P1) == Held(FIRST, 2)
    first = begun.ready("r1", [P0])
    assert (first.held(P0), first.held(P1)) == (Held(2), Held(FIRST, 2))


def test_a_later_refresh_replaces_the_one_under_way_and_serves_the_old_until_ready() -> None:
    second = Generations().reset("r1", [P0]).reset("r2", [P0])
    assert second.held(P0) == Held(FIRST, 3)
    assert second.ready("r1", [P0]) is second, "r1 is not what is being filled"
    assert not second.has(P0, 2)


def test_a_cancelled_refresh_leaves_what_is_served() -> None:
    begun = Generations().reset("r1", [P0, P1])
    cancelled = begun.cancelled(P0)
    assert (cancelled.held(P0), cancelled.held(P1)) == (Held(FIRST), Held(FIRST, 2))
    assert cancelled.cancelled(P0) is cancelled
    assert cancelled.reset("r3", [P0]).held(P0).filling == 3, "numbers are not used twice"


def test_the_edition_rises_with_what_is_served_and_with_nothing_else() -> None:
    begun = Generations().reset("r1", [P0, P1])
    assert begun.edition("prices") == begun.cancelled(P0).edition("prices") == Generations().edition("prices") == 0
    done = begun.cancelled(P1).ready("r1", [P0])
    assert (done.edition("prices"), done.edition("prices", 0), done.edition("prices", 1), done.edition("fx")) == (
        1,
        1,
        0,
        0,
    )
    voided = done.voided(P1).voided(P0)
    assert (voided.edition("prices"), voided.edition("prices", 0), voided.edition("prices", 1)) == (3, 2, 1)
    again = voided.reset("r2", [P0]).ready("r2", [P0])
    assert again.edition("prices", 0) == 3, "what was void is remembered"
    assert Generations().voided(TopicPartition("prices-1", 1)).edition("prices") == 0


@pytest.mark.parametrize("seed", range(100))
def test_only_ready_of_what_is_filled_changes_what_is_served(seed: int) -> None:
    random = Random(seed)
    state, seen = Generations(), {FIRST}
    for _ in range(40):
        some = random.sample([P0, P1, P2], random.randint(1, 3))
        refresh = f"r{random.randint(1, 4)}"
        before, act = state, random.choice(["reset", "ready", "cancel", "restart"])
        match act:
            case "reset":
                state = state.reset(refresh, some)
            case "ready":
                state = state.ready(refresh, some)
            case "cancel":
                state = state.cancelled(some[0])
            case _:
                state = msgspec.json.decode(msgspec.json.encode(state), type=Generations)
                assert state == before, f"seed {seed}: it survives its file"
        for at in (P0, P1, P2):
            if act != "ready" or before.filling_refresh(at) != refresh or at not in some:
                assert state.held(at).served == before.held(at).served, f"seed {seed}: {act} changed what is served"
            else:
                assert state.held(at).served == before.held(at).filling
            new = state.held(at).filling
            if new != before.held(at).filling and new != NONE:
                assert new not in seen or state.refreshes[new] == before.refreshes.get(new), f"seed {seed}: {new} again"
        seen |= {state.last_number}
        assert set(state.refreshes) <= {n for held in state.partitions.values() for n in (held.served, held.filling)}
