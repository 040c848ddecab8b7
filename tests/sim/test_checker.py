"""The checker of histories finds what a history may not show, in histories made by hand, and nothing in good ones."""

from __future__ import annotations

import pytest
from verify.clusters.checker import problems
from verify.clusters.history import History, Outcome, Poll, Send


def send(number: int, outcome: Outcome = Outcome.DONE, offset: int | None = None, transaction: int = -1) -> Send:
    place = number if offset is None else offset
    return Send("p", 0, f"v{number}".encode(), number, outcome, place, transaction)


def poll(position: int, *seen: tuple[int, int], client: str = "c", is_final: bool = False) -> Poll:
    return Poll(client, 0, position, [(offset, f"v{number}".encode()) for offset, number in seen], is_final)


def final(*seen: tuple[int, int]) -> Poll:
    return poll(0, *seen, client="final", is_final=True)


def test_a_good_history_is_good() -> None:
    history = History([send(0), send(1)], [poll(0, (0, 0)), poll(1, (1, 1)), final((0, 0), (1, 1))])

    assert problems(history) == []


def test_what_is_unknown_may_have_happened_or_not() -> None:
    happened = History([send(0), send(1, Outcome.UNKNOWN, -1)], [final((0, 0), (1, 1))])
    did_not = History([send(0), send(1, Outcome.UNKNOWN, -1)], [final((0, 0))])

    assert problems(happened) == []
    assert problems(did_not) == []


BAD = {
    "empty": History(),
    "inconsistent-offsets": History([send(0), send(1)], [poll(0, (0, 1)), final((0, 0), (1, 1))]),
    "wrong-offset": History([send(0, offset=5)], [final((0, 0))]),
    "G1a": History([send(0), send(1, Outcome.FAILED)], [final((0, 0), (1, 1))]),
    "invented": History([send(0)], [final((0, 0), (1, 7))]),
    "duplicate": History([send(0), send(1, offset=2)], [final((0, 0), (1, 0), (2, 1))]),
    "lost-write": History([send(0), send(1)], [final((1, 1))]),
    "unseen": History([send(0), send(1)], [final((0, 0))]),
    "read once, then gone": History([send(0), send(1, Outcome.UNKNOWN)], [poll(0, (0, 0), (1, 1)), final((0, 0))]),
    "torn-transaction": History([send(0, transaction=1), send(1, Outcome.UNKNOWN, transaction=1)], [final((0, 0))]),
    "int-nonmonotonic-poll": History([send(0), send(1)], [poll(0, (1, 1), (0, 0)), final((0, 0), (1, 1))]),
    "nonmonotonic-poll": History([send(0), send(1)], [poll(1, (0, 0)), final((0, 0), (1, 1))]),
    "poll-skip": History([send(0), send(1), send(2)], [poll(0, (0, 0), (2, 2)), final((0, 0), (1, 1), (2, 2))]),
    "nonmonotonic-send": History([send(0, offset=1), send(1, offset=0)], [final((0, 1), (1, 0))]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_found_out(name: str) -> None:
    found = problems(BAD[name])

    kind = "lost-write" if name == "read once, then gone" else name
    assert any(problem.startswith(f"{kind}:") for problem in found), found
