"""The judge of an app under fire: it accepts good histories, and reports every planted anomaly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from verify.app_fire.checks import COMMIT_S, OUTAGE_S, Evidence, Handled, Seen, Stored
from verify.app_fire.journal import Event, Journal, Journals

STREAM = Handled("h", "orders", letters="dead")
QUEUE = replace(STREAM, is_ordered=False)
ONCE = replace(STREAM, results="copies")
BROKEN = 7


def history(text: str) -> list[Event]:
    """Events by lines of `time worker what number attempt`; the number is the offset in partition 0."""
    events = []
    for line in text.strip().splitlines():
        at_s, worker, what, number, *attempt = line.split()
        event = Event(int(worker), what, "h", 0, int(number), int(number), int(*attempt or "1"), float(at_s))
        events.append(event)
    return events


def judged(text: str, handled: Handled = STREAM, *, keys: str = "ab", **more: object) -> list[str]:
    """The problems of a history; record n has the n-th key."""
    orders = [Stored(0, number, number, key) for number, key in enumerate(keys)]
    given: dict[str, object] = {"topics": {"orders": orders, **dict(more.pop("topics", {}))}, **more}  # type: ignore[call-overload]
    return Evidence([handled], 2, lambda number: number == BROKEN, history(text), **given).problems()  # type: ignore[arg-type]


GOOD = """
    1 1 begin 0
    2 1 end 0
    3 1 begin 1
    4 1 end 1
"""


def test_a_history_in_which_all_is_well_has_no_problems() -> None:
    assert judged(GOOD) == []
    assert judged(GOOD, keys="aa", seen=[Seen("h", 0, 1, 2.5), Seen("h", 0, 2, 4.5)]) == []
    assert judged(GOOD, QUEUE) == []


def test_a_lost_record_is_reported() -> None:
    assert judged("1 1 begin 0\n2 1 end 0\n3 1 begin 1") == ["h: 1 lost, first 1"]
    assert judged("1 1 begin 0\n2 1 end 0", QUEUE) == ["h: 1 lost, first 1"]


def test_a_record_that_fails_for_good_must_be_a_dead_letter_and_no_other_may() -> None:
    text = GOOD + "".join(
        f"{5 + number} 1 begin {number}\n{5 + number} 1 end {number}\n" for number in range(2, BROKEN)
    )
    text += f"20 1 failed {BROKEN} 2"
    keys = "abcdefgh"
    letter = Stored(0, 0, BROKEN, "h")

    assert judged(text, keys=keys, topics={"dead": [letter]}) == []
    assert judged(text, keys=keys, topics={"dead": []}) == [f"h: 1 not a dead letter, first {BROKEN}"]
    wrong = judged(text, keys=keys, topics={"dead": [letter, replace(letter, number=3)]})
    assert wrong == ["h: 1 a dead letter without a reason, first 3"]


def test_a_record_that_begins_before_an_earlier_one_of_its_key_has_ended_is_reported() -> None:
    early = "1 1 begin 0\n2 1 begin 1\n3 1 end 0\n4 1 end 1"

    assert judged(early) == []
    assert judged(early, keys="aa") == ["h: 1 begun before an earlier record of its key had ended, first 1"]
    assert judged(early, QUEUE, keys="aa") == []


def test_a_retry_that_lets_its_key_go_on_is_reported() -> None:
    text = "1 1 begin 0\n2 1 failed 0 1\n3 1 begin 1\n4 1 end 1\n5 1 begin 0 2\n6 1 end 0 2"

    assert judged(text, keys="aa") == ["h: 1 begun before an earlier record of its key had ended, first 1"]


def test_a_commit_past_an_unfinished_record_is_reported() -> None:
    assert judged(GOOD, seen=[Seen("h", 0, 2, 3.5)]) == ["h: 1 committed before it had ended, first 1"]
    assert judged(GOOD, seen=[Seen("other", 0, 2, 3.5)]) == []


def test_a_record_that_begins_after_its_commit_was_seen_is_reported_unless_its_worker_was_frozen() -> None:
    again = GOOD + "5 2 begin 1\n6 2 end 1"
    seen = [Seen("h", 0, 2, 4.5)]

    assert "h: 1 begun after it was committed, first 1" in judged(again, seen=seen, killed_s={1: 4.2})
    assert judged(again, seen=seen, killed_s={1: 4.2}, frozen_s={2: [0.5]}) == []


def test_an_ended_record_runs_again_only_where_it_could_not_be_committed() -> None:
    later = 4 + COMMIT_S + 1
    again = GOOD + f"{later} 2 begin 1\n{later + 1} 2 end 1"
    problem = ["h: 1 run again without a reason, first 1"]

    assert judged(again) == problem
    assert judged(again, QUEUE) == problem
    assert judged(again, killed_s={1: 4.5}) == [], "killed before its commit"
    assert judged(again, killed_s={1: later - 0.5}) == problem, "killed long after it had ended"
    assert judged(again, frozen_s={1: [4.5]}) == []
    # Its handler's process has ended the record at 4, after the freeze of the worker, which alone commits.
    assert judged(again, frozen_s={1: [3.9]}) == []
    assert judged(again, broker_killed_s=[4.0]) == []
    assert judged(again, broker_killed_s=[later - OUTAGE_S - 1]) == problem


def test_an_outage_lasts_until_a_commit_is_seen() -> None:
    later = 4 + OUTAGE_S + 20
    text = GOOD + f"{later} 2 begin 1\n{later + 1} 2 end 1"
    before, again = Seen("h", 0, 1, 2.5), Seen("h", 0, 2, later - 1)
    sooner = replace(again, at_s=4 + COMMIT_S)
    problem = "h: 1 run again without a reason, first 1"

    assert problem not in judged(text, seen=[before, again], broker_killed_s=[3.9])
    assert problem in judged(text, seen=[before, sooner], broker_killed_s=[3.9])
    other = [replace(one, group="other") for one in (before, again)]
    assert judged(text, QUEUE, seen=other, broker_killed_s=[3.9]) == []
    assert judged(text, QUEUE, seen=[replace(one, at_s=5.0) for one in other], broker_killed_s=[3.9]) == [problem]


def test_what_ended_behind_an_unfinished_record_may_run_again() -> None:
    later = 4 + COMMIT_S + 1
    text = f"1 1 begin 0\n3 1 begin 1\n4 1 end 1\n{later} 2 begin 0\n{later + 1} 2 begin 1\n{later + 2} 2 end 0"

    assert judged(text + f"\n{later + 3} 2 end 1", killed_s={1: 5}) == []


def test_what_ended_earlier_in_another_worker_does_not_make_a_later_one_committable() -> None:
    """The second worker has not ended record 0 again when it loses the partition."""
    text = "1 1 begin 0\n3 1 end 0\n3 1 begin 1\n4 1 end 1\n5 2 begin 0\n5 2 begin 1\n5.5 2 end 1"
    later = 5.5 + COMMIT_S + 1
    text += f"\n{later} 3 begin 0\n{later} 3 begin 1\n{later + 1} 3 end 0\n{later + 1} 3 end 1"

    assert judged(text, killed_s={1: 4.1, 2: later - 0.1}) == []
    complete = text.replace("5.5 2 end 1", "5.4 2 end 0\n5.5 2 end 1")
    assert judged(complete, killed_s={1: 4.1, 2: later - 0.1}) == ["h: 2 run again without a reason, first 0"]


def test_a_worker_that_was_frozen_may_begin_with_what_it_held() -> None:
    later = 4 + COMMIT_S + 1
    text = f"1 1 begin 0\n3 2 begin 0\n4 2 end 0\n{later} 1 begin 0\n{later + 1} 1 end 0\n1 1 begin 1\n2 1 end 1"

    assert judged(text, QUEUE, frozen_s={1: [1.5]}) == []
    assert judged(text, QUEUE, frozen_s={1: [later + 0.5]}) != []


def test_what_begins_again_for_a_reason_has_to_end_again_and_may_run_until_then() -> None:
    later = 4 + COMMIT_S + 1
    text = f"1 1 begin 0\n3 1 end 0\n4 2 begin 0\n{later + 50} 3 begin 0\n{later + 51} 3 end 0\n1 1 begin 1\n2 1 end 1"

    assert judged(text, QUEUE, killed_s={1: 3.5, 2: 5.0}) == []


def test_an_end_in_a_worker_that_has_lost_the_record_does_not_count() -> None:
    """The second worker has the record when it is killed, and has not ended it."""
    later = 4 + COMMIT_S + 1
    text = f"1 1 begin 0\n2 2 begin 0\n3 1 end 0\n{later} 3 begin 0\n{later + 1} 3 end 0\n1 1 begin 1\n2 1 end 1"

    assert judged(text, QUEUE, frozen_s={1: [1.5]}, killed_s={2: later - 0.5}) == []
    ended = text.replace("3 1 end 0", "3 2 end 0")
    assert judged(ended, QUEUE, frozen_s={1: [1.5]}, killed_s={2: later - 0.5}) == [
        "h: 1 run again without a reason, first 0"
    ]


def test_a_record_that_two_workers_run_at_once_is_reported_unless_the_first_is_gone() -> None:
    text = "1 1 begin 0\n2 2 begin 0\n3 2 end 0\n4 1 cancelled 0\n5 1 begin 1\n6 1 end 1"

    assert judged(text, QUEUE) == ["h: 1 run by two workers at once, first 0"]
    assert judged(text, QUEUE, frozen_s={1: [1.5]}) == []
    assert judged(text, QUEUE, killed_s={1: 1.5}) == []


def copies(*numbers: int) -> dict[str, list[Stored]]:
    return {"copies": [Stored(0, offset, number, "a") for offset, number in enumerate(numbers)]}


def test_results_are_there_once_and_in_the_order_of_their_key() -> None:
    assert judged(GOOD, ONCE, topics=copies(0, 1)) == []
    assert judged(GOOD, ONCE, topics=copies(0)) == ["h: 1 without a result, first 1"]
    assert judged(GOOD, ONCE, topics=copies(0, 1, 1)) == ["h: 1 with two results, first 1"]
    assert judged(GOOD, ONCE, topics=copies(1, 0)) == ["h: 1 a result before an earlier one of its key, first 0"]


def test_a_second_dead_letter_is_reported_where_they_are_written_once() -> None:
    text = GOOD + "".join(
        f"{5 + number} 1 begin {number}\n{5 + number} 1 end {number}\n" for number in range(2, BROKEN)
    )
    letters = [Stored(0, offset, BROKEN, "h") for offset in range(2)]
    topics = {"dead": letters, **copies(*range(BROKEN))}

    assert judged(text, ONCE, keys="abcdefgh", topics=topics) == [f"h: 1 a dead letter twice, first {BROKEN}"]


def test_a_journal_is_read_back_without_its_torn_line(tmp_path: Path) -> None:
    journal, journals = Journal(tmp_path), Journals(tmp_path)
    journal.write("begin", "h", 1, 2, 3, 4)
    (event,) = journals.read()
    assert (event.what, event.handler, event.partition, event.offset, event.number, event.attempt) == (
        "begin", "h", 1, 2, 3, 4,
    )  # fmt: skip
    (path,) = tmp_path.glob("*.journal")
    with path.open("a") as file:
        file.write("end h 1 2")
    assert journals.read() == []
    with path.open("a") as file:
        file.write(" 3 4 5.5\n")
    assert [one.what for one in journals.read()] == ["end"]
    assert [one.what for one in journals.events] == ["begin", "end"]
