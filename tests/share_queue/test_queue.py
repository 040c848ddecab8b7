"""A queue with eight share consumers of which some are killed or frozen. Longer: `make queue`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from verify.share_queue.conductor import LIMIT, LOCK_S, expected_letters, work_under_kills
from verify.share_queue.judgement import Event, Judgement

RECORDS = 1_000
FETCH_S = 30.0
"""How long a busy machine may take to deliver an available record again."""


@pytest.mark.long
@pytest.mark.data
def test_every_record_is_accepted_once_or_a_dead_letter_while_workers_are_killed(tmp_path: Path) -> None:
    outcome = work_under_kills(tmp_path, RECORDS, kills=4, broker_kills=1, seed=1)

    judgement = outcome.judgement
    assert judgement.problems() == []
    assert len(judgement.letters) == expected_letters(RECORDS)
    assert judgement.longest_wait_s() <= LOCK_S + FETCH_S
    assert (outcome.done["worker"], outcome.done["freeze"], outcome.done["broker"]) == (4, 1, 1)


def judged(*lines: str, letters: Counter[int] | None = None) -> list[str]:
    """The problems of a history of record 0, in lines of `worker what detail`."""
    rows = [line.split() for line in lines]
    events = [Event(worker, what, 0, detail, float(at)) for at, (worker, what, detail) in enumerate(rows)]
    return Judgement(1, LIMIT, LOCK_S, events, {}, letters or Counter()).problems()


def test_the_judge_reports_problems() -> None:
    accepted = ("a got 1", "a doing accept", "a done accept")

    assert judged(*accepted) == []
    assert judged("a got 1", "a doing accept") == [], "whether it was taken is unknown"
    assert judged() == ["1 lost, first 0"]
    assert judged("a got 1") == ["1 lost, first 0"]
    assert judged(*accepted, "b got 1", "b doing accept", "b done accept") == ["1 accepted twice, first 0"]
    assert "1 accepted and a dead letter, first 0" in judged(*accepted, letters=Counter([0]))
    assert "1 a dead letter twice, first 0" in judged(letters=Counter([0, 0]))
    assert "1 delivered too often, first 0" in judged(f"a got {LIMIT + 1}", "a doing accept", "a done accept")
    assert "1 held by two at once, first 0" in judged("a got 1", "b got 1", "a doing accept", "a done accept")
    late = ("a got 1", "b got 2", "b doing accept", "b done accept", "a doing accept", "a done accept")
    assert judged(*late) == [], "a late acknowledgement does not count"
