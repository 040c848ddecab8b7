"""What a broker keeps of clients' metrics: who may push when, and never more than there is room for."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs
from tests.wire.otlp_writing import counter, gauge, payload, point

from qanat.broker.runtime import client_metrics as module
from qanat.broker.runtime.client_metrics import ClientIdentity, ClientMetrics
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Event, EventKind, Revision
from qanat.model.error_codes import ErrorCode
from qanat.wire.compression import Codec, compress

IDENTITY = ClientIdentity("billing", "librdkafka", "2.16", "10.0.0.1", "5000", "User:alice")
NEW = UUID(int=0)


class Place:
    """A broker's clients, and its clock."""

    def __init__(self, **configs: str) -> None:
        self.now_ms = 1_000_000
        self.image = MetadataImage()
        self.metrics = ClientMetrics(3, self.image, lambda: self.now_ms)
        self.subscribe_all({"metrics": "*", "interval.ms": "1000", **configs})

    def subscribe_all(self, configs: dict[str, str]) -> None:
        value = values.encode(values.ClientMetricsConfig(overrides=configs))
        at = Revision(self.image.revision + 1)
        self.image.apply(Event(EventKind.PUT, keys.client_metrics("all"), value, at, at))
        self.metrics.forget_subscriptions()

    def begin(self) -> tuple[UUID, int]:
        instance, wanted, code = self.metrics.subscribe(NEW, IDENTITY)
        assert code == ErrorCode.NONE
        return instance, wanted.subscription_id

    def push(
        self, instance: UUID, subscription: int, data: bytes, codec: int = 0, *, is_last: bool = False
    ) -> ErrorCode:
        return asyncio.run(self.metrics.push(instance, IDENTITY, subscription, codec, data, is_last=is_last))

    def view(self, instance: UUID) -> Any:
        report = self.metrics.report({str(instance)})
        (view,) = [one for one in report.clients if one.client_instance_id == str(instance)]
        return view, {(one.name, *one.labels.values()): one.value for one in report.series[str(instance)]}


def test_a_client_gets_an_id_pushes_and_is_shown() -> None:
    place = Place()
    instance, subscription = place.begin()

    assert place.push(instance, subscription, payload(gauge("rtt", point(1.5, {"node": "1"})))) == ErrorCode.NONE
    view, series = place.view(instance)
    assert series == {("rtt", "1"): 1.5}
    assert (view.client_id, view.software_name, view.node_id, view.pushes, view.last_error) == (
        "billing",
        "librdkafka",
        3,
        1,
        None,
    )


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_pushes_in_every_compression_are_read(codec: int) -> None:
    place = Place()
    instance, subscription = place.begin()
    data = payload(*(gauge(f"m{n}", point(float(n))) for n in range(300)))

    assert place.push(instance, subscription, bytes(compress(Codec(codec), data)), codec) == ErrorCode.NONE
    assert len(place.view(instance)[1]) == 300


def test_who_asks_or_pushes_too_soon_is_refused() -> None:
    place = Place()
    instance, subscription = place.begin()
    assert place.metrics.subscribe(instance, IDENTITY)[2] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert place.push(instance, subscription, b"") == ErrorCode.NONE
    assert place.push(instance, subscription, b"") == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    place.now_ms += 1000
    assert place.push(instance, subscription, b"") == ErrorCode.NONE
    assert place.push(instance, subscription, b"", is_last=True) == ErrorCode.NONE
    assert place.push(instance, subscription, b"", is_last=True) == ErrorCode.INVALID_REQUEST
    assert place.view(instance)[0].has_ended


def test_a_change_of_what_is_wanted_is_learned_with_the_next_push() -> None:
    place = Place()
    instance, subscription = place.begin()
    place.subscribe_all({"metrics": "org.", "interval.ms": "1000"})

    assert place.push(instance, subscription, b"") == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    _, wanted, code = place.metrics.subscribe(instance, IDENTITY)  # At once: it has to.
    assert (code, wanted.metrics) == (ErrorCode.NONE, ("org.",))
    assert place.push(instance, wanted.subscription_id, b"") == ErrorCode.NONE


def test_bombs_and_rubbish_are_refused_and_counted() -> None:
    place = Place()
    instance, subscription = place.begin()
    bomb = bytes(compress(Codec.ZSTD, bytes(64 * 1024 * 1024)))
    assert len(bomb) < 10_000
    for data, codec, error in (
        (bomb, 4, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(module.PUSH_BYTES_MAX + 1), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"no zstd at all", 4, ErrorCode.INVALID_RECORD),
        (b"\xff\xff\xff", 0, ErrorCode.INVALID_RECORD),
        (payload(gauge("n" * 999, point(1.0))), 0, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"\x0a\x00" * 60_000, 0, ErrorCode.INVALID_RECORD),
    ):
        assert place.push(instance, subscription, data, codec) == error
        place.now_ms += 1000
    view, series = place.view(instance)
    assert (view.refused, view.pushes, series) == (7, 0, {})
    assert place.metrics.refused[ErrorCode.INVALID_RECORD] == 4
    for wrong in (NEW, UUID(int=1)):
        assert place.push(wrong, subscription, b"") == ErrorCode.INVALID_REQUEST


def test_memory_stays_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 20)
    monkeypatch.setattr(module, "SERIES_OF_ONE_MAX", 30)
    monkeypatch.setattr(module, "SERIES_MAX", 100)
    place = Place()
    data = payload(*(gauge(f"m{n}", point(float(n))) for n in range(50)))
    for _ in range(60):
        instance, subscription = place.begin()
        assert place.push(instance, subscription, data) == ErrorCode.NONE
        assert len(list(place.metrics.points())) <= 100
    report = place.metrics.report(set())
    assert len(report.clients) == 20
    assert place.metrics.dropped > 0
    assert max(one.series for one in report.clients) <= 30
    assert place.metrics._series == len(list(place.metrics.points()))


def test_differences_are_added_up_and_silent_clients_are_forgotten() -> None:
    place = Place()
    instance, subscription = place.begin()
    for _ in range(3):
        place.push(instance, subscription, payload(counter("sent", point(2), is_delta=True)))
        place.now_ms += 1000
    assert place.view(instance)[1] == {("sent",): 6.0}

    place.now_ms += 120_000
    assert (place.metrics.count, list(place.metrics.points())) == (0, [])
    place.begin()
    assert place.metrics._series == 0


def test_a_subscription_of_another_version_disturbs_no_other() -> None:
    place = Place()
    place.subscribe_all({"of.the.future": "x"})

    assert place.metrics.subscribe(NEW, IDENTITY)[1].metrics == ()
    assert uuid4() not in place.metrics._clients


def test_nobody_speaks_for_the_client_of_another_user() -> None:
    place = Place()
    instance, subscription = place.begin()
    other = structs.replace(IDENTITY, principal="User:mallory")
    pushed = place.metrics.push(instance, other, subscription, 0, payload(gauge("a", point(1.0))), is_last=True)

    assert asyncio.run(pushed) == ErrorCode.INVALID_REQUEST
    place.now_ms += 5000
    assert place.metrics.subscribe(instance, other)[2] == ErrorCode.INVALID_REQUEST
    assert place.push(instance, subscription, payload(gauge("a", point(2.0)))) == ErrorCode.NONE
    assert place.view(instance)[1] == {("a",): 2.0}
