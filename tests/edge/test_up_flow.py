"""The way up: what the child does next, what the parent takes."""

from __future__ import annotations

from qanat.edge.up_flow import (
    Already,
    AppendUpload,
    AskMark,
    Idle,
    Mark,
    Name,
    Named,
    Outbox,
    RefuseUpload,
    Upload,
    begin,
    decide,
)


def test_a_child_asks_uploads_names_and_deletes_in_this_order() -> None:
    outbox = Outbox(0, 5, 1000, chunk_records=3)
    assert outbox.next_act() == AskMark()
    assert outbox.marked(Mark("t", 0, 1)) == 0
    assert outbox.next_act() == Upload(0, 3)
    outbox.uploaded(Upload(0, 3))
    assert outbox.next_act() == Name(Named("t", 0, 3, 1))
    assert outbox.marked(Mark("t", 3, 1)) == 3
    assert outbox.next_act() == Upload(3, 5)
    outbox.uploaded(Upload(3, 5))
    assert outbox.marked(Mark("t", 5, 1)) == 5
    assert outbox.next_act() == Idle()


def test_a_mark_that_was_settled_counts_as_one_at_the_base_and_no_other_does() -> None:
    """Another parent took what came after it, and said so when the child came back."""
    assert begin(Mark("t", 4, 7), "t", 9, settled=4) == Mark("t", 9, 8)
    for end in (3, 5, 9, 12):  # Restored, restored, appended since.
        assert begin(Mark("t", end, 7), "t", 9, settled=4) == Mark("t", end, 8)


def test_a_mark_that_a_restore_has_lost_stops_an_outbox_that_has_deleted_anything() -> None:
    outbox = Outbox(3, 5, 1000)
    outbox.marked(begin(None, "t", 0))
    act = outbox.next_act()
    assert isinstance(act, Idle)
    assert "records before 3 are deleted here" in act.stopped


def test_after_a_failure_the_mark_of_the_parent_counts() -> None:
    outbox = Outbox(0, 5, 1000)
    outbox.marked(Mark("t", 0, 1))
    outbox.uploaded(Upload(0, 5))
    outbox.failed()
    assert outbox.next_act() == AskMark()
    assert outbox.marked(Mark("t", 5, 2)) == 5
    assert outbox.next_act() == Idle()


def test_a_topic_that_lost_its_mark_stops_the_child_which_deletes_nothing_more() -> None:
    outbox = Outbox(100, 120, 1000)
    assert outbox.marked(Mark("new", 0, 0)) == 100
    act = outbox.next_act()
    assert isinstance(act, Idle)
    assert "records before 100 are deleted here" in act.stopped


def test_a_mark_beyond_the_outbox_stops_the_child() -> None:
    outbox = Outbox(100, 120, 1000)
    outbox.marked(Mark("t", 130, 0))
    act = outbox.next_act()
    assert isinstance(act, Idle)
    assert "ends at 120" in act.stopped


def test_a_full_outbox_has_no_room() -> None:
    outbox = Outbox(0, 0, 1000)
    assert outbox.has_room(900, 100)
    assert not outbox.has_room(900, 101)


def test_the_parent_appends_from_the_mark_on_and_answers_a_repetition() -> None:
    mark = begin(None, "t")
    assert mark == Mark("t", 0, 0)
    assert decide(mark, Named("t", 0, 3, 0), "t") == AppendUpload(Mark("t", 3, 0))
    mark = Mark("t", 3, 0)
    assert decide(mark, Named("t", 0, 3, 0), "t") == Already(mark)
    assert decide(mark, Named("t", 4, 6, 0), "t") == RefuseUpload(mark)
    assert decide(mark, Named("t", 2, 6, 0), "t") == RefuseUpload(mark)
    assert decide(mark, Named("u", 3, 6, 0), "t") == RefuseUpload(mark)
    assert decide(None, Named("t", 0, 6, 0), "t") == RefuseUpload(None)


def test_a_later_start_fences_the_earlier() -> None:
    mark = begin(Mark("t", 3, 0), "t")
    assert mark == Mark("t", 3, 1)
    assert decide(mark, Named("t", 3, 6, 0), "t") == RefuseUpload(mark, is_fenced=True)


def test_a_mark_of_another_topic_counts_as_none() -> None:
    assert begin(Mark("old", 50, 4), "new") == Mark("new", 0, 5)
