"""Share groups on a disk that is slow or hangs: no request waits for ever, and no record is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic

import pytest
from tests.servers.kafka.admin_requests import create, topic
from tests.servers.kafka.raw import RawClient
from tests.servers.kafka.share_member import ACCEPT, REJECT, Member, configure, held, produce

from qanat.api.share import acknowledgements
from qanat.broker.share import dead_letters
from qanat.log.flush_state import FlushJob
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import SHARE_STATE_TOPIC
from qanat.telemetry.events import FIELDS, RateLimitedEvent
from qanat.testing import EmbeddedBroker

SLOW_MS = 50
WAIT_S = 30.0
DEAD = "orders.dead"


class Disk:
    """Delays or holds the flushes of some topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: set[str] = set()
        self.delay_s = 0.0
        run = FlushJob.run

        def slowly(job: FlushJob) -> None:
            time.sleep(self.delay_s)
            end_s = monotonic() + WAIT_S
            while job._log.topic_partition.topic in self.held and monotonic() < end_s:
                time.sleep(0.005)
            run(job)

        monkeypatch.setattr(FlushJob, "run", slowly)


class Scene:
    """A member of a group that holds the only record."""

    def __init__(self, running: EmbeddedBroker, client: RawClient, disk: Disk) -> None:
        self.broker, self.disk = running, disk
        made = [topic("orders", 1, 1), topic(DEAD, 1, 1, flush_messages="1")]
        assert [one.error_code for one in create(client, *made)] == [0, 0]
        configure(client, "g", share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=DEAD)
        produce(client, "orders", b"value")
        self.member = Member(client, "g", "a", "orders")
        assert [one.value for one in held(self.member.fetch(wait_ms=10_000))] == [b"value"]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    disk = Disk(monkeypatch)
    # Every slow request is logged, also right behind another one.
    monkeypatch.setattr("qanat.broker.broker.RateLimitedEvent", lambda name: RateLimitedEvent(name, pause_s=0.0))
    with ExitStack() as stack:
        running = stack.enter_context(EmbeddedBroker(settings={"slow.request.ms": SLOW_MS}))
        stack.callback(disk.held.clear)
        yield Scene(running, stack.enter_context(RawClient(running.bootstrap_servers)), disk)


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, object]]:
    return [getattr(one, FIELDS) for one in caplog.records if one.getMessage() == name]


def test_an_acknowledgement_that_waits_long_for_the_disk_is_logged(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "qanat")
    scene.disk.delay_s = 2 * SLOW_MS / 1000
    assert scene.member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NONE

    assert "ShareAcknowledge" in [one["api"] for one in events(caplog, "slow request")]


def test_an_acknowledgement_does_not_wait_for_ever(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledgements, "_DURABLE_S", 0.2)
    scene.disk.held.add(SHARE_STATE_TOPIC)
    assert scene.member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.REQUEST_TIMED_OUT

    scene.disk.held.clear()
    assert held(scene.member.fetch()) == [], "it was accepted all the same"


def test_letters_that_wait_for_a_hanging_disk_are_reported_and_written_in_the_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "qanat")
    monkeypatch.setattr(dead_letters, "_DURABLE_S", 0.2)
    scene.disk.held.add(DEAD)
    assert scene.member.acknowledge((0, 0, [REJECT])) == ErrorCode.NONE
    end_s = monotonic() + WAIT_S
    while not (reported := events(caplog, "dead letters cannot be written")):
        assert monotonic() < end_s
        time.sleep(0.01)

    scene.disk.held.clear()
    scene.broker.wait_for(DEAD, 1)
    assert reported[0]["topic"] == DEAD
    assert {one.value for one in scene.broker.records(DEAD)} == {b"value"}
