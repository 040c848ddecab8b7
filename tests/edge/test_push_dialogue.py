"""The order of a push client's frames, silence, queues and resuming."""

from __future__ import annotations

import pytest

from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import PushDialogue, Stage, WrongFrameError
from qanat.edge.push_queue import Held, PushQueue
from qanat.edge.resume import OUT_OF_RANGE, TRUNCATED, Extent, Resumed, resume
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Verdict
from qanat.wire.push.frames import FrameType

ALLOWED = {
    Stage.UNAUTHENTICATED: {FrameType.HEARTBEAT, FrameType.DISCONNECT},
    Stage.OPEN: {FrameType.HEARTBEAT, FrameType.SUBSCRIBE, FrameType.DATA, FrameType.DISCONNECT},
    Stage.SUBSCRIBED: {FrameType.HEARTBEAT, FrameType.ACK, FrameType.COMMIT_OFFSET, FrameType.DISCONNECT},
    Stage.OVER: set(),
}
HERE = TopicPartition("work", 0)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("frame_type", list(FrameType))
def test_each_stage_takes_its_frames_and_no_other(stage: Stage, frame_type: FrameType) -> None:
    dialogue = PushDialogue(0, must_authenticate=False)
    dialogue.check(FrameType.HEARTBEAT, 1)
    dialogue.stage = stage

    if frame_type in ALLOWED[stage]:
        dialogue.check(frame_type, 2)
    else:
        with pytest.raises(WrongFrameError, match=frame_type.name):
            dialogue.check(frame_type, 2)


def test_the_first_frame_names_the_client() -> None:
    with pytest.raises(WrongFrameError, match="first frame"):
        PushDialogue(0, must_authenticate=False).check(FrameType.DATA, 1)


def test_a_client_that_must_authenticate_cannot_subscribe_before() -> None:
    dialogue = PushDialogue(0, must_authenticate=True)
    with pytest.raises(WrongFrameError) as refused:
        dialogue.check(FrameType.SUBSCRIBE, 1)
    assert refused.value.reason == "not-authenticated"

    dialogue.authenticated()

    dialogue.check(FrameType.SUBSCRIBE, 1)
    dialogue.subscribed()
    dialogue.authenticated()
    assert dialogue.stage is Stage.SUBSCRIBED, "a renewed authentication changes nothing else"


def test_ids_rise_except_those_of_acks_and_unsolicited_frames() -> None:
    dialogue = PushDialogue(0, must_authenticate=False)
    dialogue.check(FrameType.SUBSCRIBE, 5)
    dialogue.subscribed()

    dialogue.check(FrameType.ACK, 1)
    dialogue.check(FrameType.HEARTBEAT, 0)
    dialogue.check(FrameType.COMMIT_OFFSET, 6)
    for frame_id in (6, 5):
        with pytest.raises(WrongFrameError, match="ids rise"):
            dialogue.check(FrameType.COMMIT_OFFSET, frame_id)


def test_silence_is_answered_by_a_heartbeat_and_then_by_the_end() -> None:
    dialogue = PushDialogue(1_000, must_authenticate=False)

    assert not dialogue.is_heartbeat_due(10_999)
    assert dialogue.is_heartbeat_due(11_000)
    assert not dialogue.is_dead(30_999)
    assert dialogue.is_dead(31_000)


def test_a_record_of_a_queue_is_settled_once() -> None:
    queue = PushQueue(CreditWindow(2, 1_000))
    held = Held(HERE, 7, 10)
    frame = queue.sent(held)

    assert queue.settle(frame, Verdict.RENEW) == held
    assert queue.credit.out_records == 1
    assert queue.settle(frame, Verdict.ACCEPT) == held
    assert queue.settle(frame, Verdict.RELEASE) is None
    assert queue.settle(frame, Verdict.RENEW) is None
    assert (queue.credit.out_records, queue.credit.out_bytes, queue.acknowledged_id) == (0, 0, frame)


def test_a_record_that_comes_again_is_settled_by_its_latest_frame() -> None:
    queue, held = PushQueue(CreditWindow(2, 1_000)), Held(HERE, 7, 10)
    former, latest = queue.sent(held), queue.sent(held)

    assert queue.settle(former, Verdict.RENEW) is None
    assert queue.settle(former, Verdict.ACCEPT) is None, "the record there may be another one now"
    assert (queue.credit.out_records, queue.settle(latest, Verdict.ACCEPT)) == (1, held)
    assert (queue.credit.out_records, queue.settle(queue.sent(held), Verdict.ACCEPT)) == (0, held)


@pytest.mark.parametrize("frame_id", [0, 2])
def test_a_verdict_on_a_frame_that_was_never_sent_is_refused(frame_id: int) -> None:
    queue = PushQueue(CreditWindow(2, 1_000))
    queue.sent(Held(HERE, 7, 10))

    with pytest.raises(WrongFrameError):
        queue.settle(frame_id, Verdict.ACCEPT)


@pytest.mark.parametrize(
    ("offset", "extent", "resumed"),
    [
        (5, Extent(0, 10, None), Resumed(5)),
        (10, Extent(0, 10, 10), Resumed(10)),
        (10, Extent(0, 10, 7), Resumed(7, TRUNCATED)),
        (8, Extent(3, 10, 1), Resumed(3, TRUNCATED)),
        (2, Extent(3, 10, None), Resumed(3, OUT_OF_RANGE)),
        (12, Extent(3, 10, None), Resumed(10, TRUNCATED)),
        (12, Extent(3, 10, 11), Resumed(10, TRUNCATED)),
        (3, Extent(3, 3, None), Resumed(3)),
    ],
)
def test_a_subscriber_resumes_where_its_history_and_the_log_agree(
    offset: int, extent: Extent, resumed: Resumed
) -> None:
    assert resume(offset, extent) == resumed
