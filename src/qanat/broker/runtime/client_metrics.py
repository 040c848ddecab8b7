"""Metrics that clients push to this broker (KIP-714): who pushes, and what each said last.

A client asks one broker what to push (`subscribe`), and pushes there (`push`) until it connects elsewhere. What it
pushed is kept until it is silent for some intervals, and read by `/metrics` and the console.

Rule 1: memory has bounds: clients, numbers of one client, numbers of all. What does not fit is counted and left out; a
        new client takes the place of the one that was silent for longest.
Rule 2: a client that asks or pushes before its interval has passed is refused, as in Kafka.
Rule 3: payloads are opened and read within bounds, large ones in a worker, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from msgspec import Struct

from qanat.cluster.client_metrics import Subscription, Wanted, parse_subscription, wanted_of
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InflatesTooFarError, InvalidSettingError, QanatError, UnsupportedCompressionError
from qanat.telemetry.events import log_event
from qanat.wire.compression import decompress
from qanat.wire.otlp import Labels, Point, read_points

if TYPE_CHECKING:
    from qanat.cluster.image import MetadataImage

CLIENTS_MAX = 2_000
SERIES_OF_ONE_MAX = 500
SERIES_MAX = 20_000
PUSH_BYTES_MAX = 1024 * 1024
"""As pushed; `telemetry.max.bytes` of Kafka."""
INFLATED_BYTES_MAX = 4 * 1024 * 1024
ACCEPTED_COMPRESSION = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy, the best first."""
_READ_HERE_BYTES = 8 * 1024
"""Payloads of no more are read on the loop."""
_SILENT_INTERVALS = 3
_SILENT_LEAST_MS = 60_000
_NO_INSTANCE = UUID(int=0)
_RESERVED = UUID(int=1)
_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these errors a client asks at once what to push."""


class ClientIdentity(Struct, frozen=True):
    """What a client says of itself with its connection."""

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str
    principal: str

    def properties(self, instance: UUID) -> dict[str, str]:
        """What subscriptions match."""
        return {
            "client_id": self.client_id,
            "client_instance_id": str(instance),
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": self.port,
        }


class SeriesView(Struct):
    """One number of a client."""

    name: str
    labels: dict[str, str]
    value: float | None
    """None where it is not a number, as averages of nothing are."""
    unit: str
    kind: str
    """`counter` or `gauge`."""


class ClientView(Struct):
    """A client that pushes metrics, or was asked to."""

    client_instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    principal: str
    node_id: int
    """The broker that it pushes to."""
    interval_ms: int
    metrics: list[str]
    """Prefixes of the names that it is to push; none where no subscription matches it."""
    pushes: int
    refused: int
    last_error: str | None
    """Why its newest request was refused; None where it was not."""
    last_push_ms_ago: int | None
    series: int
    dropped: int
    """Numbers of its newest push that found no room."""
    has_ended: bool
    """Whether it has said that it ends."""


class ClientMetricsReport(Struct):
    """The clients of one broker, and the numbers of those that were asked for."""

    clients: list[ClientView]
    series: dict[str, list[SeriesView]]


class _Client:
    """What is known of one client instance."""

    __slots__ = (
        "asked_ms",
        "dropped",
        "has_ended",
        "identity",
        "instance",
        "last_error",
        "pushed_ms",
        "pushes",
        "refused",
        "seen_ms",
        "series",
        "wanted",
    )

    def __init__(self, instance: UUID, identity: ClientIdentity, wanted: Wanted, now_ms: int) -> None:
        self.instance = instance
        self.identity = identity
        self.wanted = wanted
        self.asked_ms: int | None = None
        """When it asked last, until it pushes."""
        self.pushed_ms: int | None = None
        self.seen_ms = now_ms
        self.pushes = self.refused = self.dropped = 0
        self.last_error: ErrorCode | None = None
        self.has_ended = False
        self.series: dict[tuple[str, Labels], Point] = {}

    def may_ask(self, now_ms: int) -> bool:
        before = [at for at in (self.asked_ms, self.pushed_ms) if at is not None]
        return not before or now_ms - max(before) >= self.wanted.interval_ms or self.last_error in _ASK_AGAIN

    def may_push(self, now_ms: int) -> bool:
        if self.pushed_ms is None or self.asked_ms is not None:
            return True  # The first push after asking comes at a random time within the interval.
        return now_ms - self.pushed_ms >= self.wanted.interval_ms

    def is_silent(self, now_ms: int) -> bool:
        return now_ms - self.seen_ms > max(_SILENT_LEAST_MS, _SILENT_INTERVALS * self.wanted.interval_ms)


class ClientMetrics:
    """The clients of this broker."""

    def __init__(self, node_id: int, image: MetadataImage, now_ms: Callable[[], int]) -> None:
        self._node_id = node_id
        self._image = image
        self._now_ms = now_ms
        self._clients: dict[UUID, _Client] = {}
        """The one that was silent for longest first."""
        self._series = 0
        self._subscriptions: list[Subscription] | None = None
        self._reading = asyncio.Lock()
        self.pushes = 0
        self.refused: dict[ErrorCode, int] = {}
        self.dropped = 0
        """Numbers that found no room."""

    def forget_subscriptions(self) -> None:
        """A subscription has changed."""
        self._subscriptions = None

    # What clients ask for

    def subscribe(self, instance: UUID, identity: ClientIdentity) -> tuple[UUID, Wanted, ErrorCode]:
        """What a client is to push, and its id, which is new where it has none yet."""
        now_ms = self._now_ms()
        if instance == _RESERVED:
            return instance, self._wanted(instance, identity), self._refuse(None, ErrorCode.INVALID_REQUEST)
        if instance == _NO_INSTANCE:
            instance = uuid4()
        known = self._clients.get(instance)
        if self._is_anothers(known, identity):
            return instance, self._wanted(instance, identity), self._refuse(None, ErrorCode.INVALID_REQUEST)
        if known is not None and not known.may_ask(now_ms):
            return instance, known.wanted, self._refuse(known, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        client = self._seen(instance, identity, now_ms)
        client.wanted = self._wanted(instance, identity)
        client.asked_ms = now_ms
        client.last_error = None
        return instance, client.wanted, ErrorCode.NONE

    async def push(
        self,
        instance: UUID,
        identity: ClientIdentity,
        subscription_id: int,
        compression: int,
        payload: bytes,
        *,
        is_last: bool,
    ) -> ErrorCode:
        """Keep what a client pushed; the error that refuses it."""
        now_ms = self._now_ms()
        if instance in (_NO_INSTANCE, _RESERVED) or self._is_anothers(self._clients.get(instance), identity):
            return self._refuse(None, ErrorCode.INVALID_REQUEST)
        client = self._seen(instance, identity, now_ms)
        code = self._judge(client, subscription_id, payload, now_ms, is_last=is_last)
        if code != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            client.pushed_ms, client.asked_ms = now_ms, None
        client.has_ended = client.has_ended or is_last
        if code:
            return self._refuse(client, code)
        try:
            points = await self._read(compression, payload)
        except UnsupportedCompressionError:
            return self._refuse(client, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        except InflatesTooFarError:
            return self._refuse(client, ErrorCode.TELEMETRY_TOO_LARGE)
        except QanatError:
            return self._refuse(client, ErrorCode.INVALID_RECORD)
        self._keep(client, points)
        client.last_error = None
        client.pushes += 1
        self.pushes += 1
        return ErrorCode.NONE

    @staticmethod
    def _is_anothers(known: _Client | None, identity: ClientIdentity) -> bool:
        """Whether an id is that of another user's client, in whose name nobody else speaks."""
        return known is not None and known.identity.principal != identity.principal

    def _judge(self, client: _Client, subscription_id: int, payload: bytes, now_ms: int, *, is_last: bool) -> ErrorCode:
        if client.has_ended:
            return ErrorCode.INVALID_REQUEST
        if not is_last and not client.may_push(now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.wanted = self._wanted(client.instance, client.identity)
        if subscription_id != client.wanted.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if len(payload) > PUSH_BYTES_MAX:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    async def _read(self, compression: int, payload: bytes) -> list[Point]:
        if len(payload) <= _READ_HERE_BYTES and not compression:
            return _points(compression, payload)
        async with self._reading:
            return await asyncio.to_thread(_points, compression, payload)

    def _keep(self, client: _Client, points: list[Point]) -> None:
        """The newest push replaces the one before; differences are added to what was there."""
        before = client.series
        kept: dict[tuple[str, Labels], Point] = {}
        room = min(SERIES_OF_ONE_MAX, SERIES_MAX - self._series + len(before))
        for point in points:
            place = (point.name, point.labels)
            if place not in kept and len(kept) >= room:
                continue
            known = before.get(place)
            if point.is_delta and known is not None:
                point = point._replace(value=known.value + point.value)
            kept[place] = point
        client.series = kept
        if self._clients.get(client.instance) is client:  # It may have been dropped while its payload was read.
            self._series += len(kept) - len(before)
        client.dropped = len({(point.name, point.labels) for point in points}) - len(kept)
        self.dropped += client.dropped

    def _seen(self, instance: UUID, identity: ClientIdentity, now_ms: int) -> _Client:
        """The client, as the one that was heard of last."""
        client = self._clients.pop(instance, None)
        if client is None:
            self._make_room(now_ms)
            client = _Client(instance, identity, self._wanted(instance, identity), now_ms)
        client.identity, client.seen_ms = identity, now_ms
        self._clients[instance] = client
        return client

    def _make_room(self, now_ms: int) -> None:
        while self._clients:
            oldest = next(iter(self._clients.values()))
            if len(self._clients) < CLIENTS_MAX and not oldest.is_silent(now_ms):
                return
            del self._clients[oldest.instance]
            self._series -= len(oldest.series)

    def _refuse(self, client: _Client | None, code: ErrorCode) -> ErrorCode:
        if client is not None:
            client.last_error = code
            client.refused += 1
        self.refused[code] = self.refused.get(code, 0) + 1
        return code

    def _wanted(self, instance: UUID, identity: ClientIdentity) -> Wanted:
        if self._subscriptions is None:
            self._subscriptions = list(_subscriptions(self._image))
        return wanted_of(self._subscriptions, identity.properties(instance))

    # What is read

    def report(self, wanted: set[str]) -> ClientMetricsReport:
        """All clients, and the numbers of those that are wanted."""
        clients = self._present()
        series = {str(one.instance): _series(one) for one in clients if str(one.instance) in wanted}
        return ClientMetricsReport([self._view(one) for one in clients], series)

    def points(self) -> Iterator[tuple[str, ClientIdentity, Point]]:
        """Every number, with the client that it is of."""
        for client in self._present():
            for point in client.series.values():
                yield str(client.instance), client.identity, point

    @property
    def count(self) -> int:
        return len(self._present())

    def _present(self) -> list[_Client]:
        now_ms = self._now_ms()
        return [one for one in self._clients.values() if not one.is_silent(now_ms)]

    def _view(self, client: _Client) -> ClientView:
        identity, wanted = client.identity, client.wanted
        return ClientView(
            str(client.instance),
            identity.client_id,
            identity.software_name,
            identity.software_version,
            identity.address,
            identity.principal,
            self._node_id,
            wanted.interval_ms,
            list(wanted.metrics),
            client.pushes,
            client.refused,
            None if client.last_error is None else client.last_error.name,
            None if not client.pushes or client.pushed_ms is None else self._now_ms() - client.pushed_ms,
            len(client.series),
            client.dropped,
            client.has_ended,
        )


def _series(client: _Client) -> list[SeriesView]:
    rows = sorted(client.series.values(), key=lambda point: (point.name, point.labels))
    return [
        SeriesView(one.name, dict(one.labels), one.value, one.unit, "counter" if one.is_counter else "gauge")
        for one in rows
    ]


def _subscriptions(image: MetadataImage) -> Iterator[Subscription]:
    for name, configs in sorted(image.client_metrics.items()):
        try:
            yield parse_subscription(configs)
        except InvalidSettingError as fault:
            # Another version, with other settings, wrote it.
            log_event(
                "a subscription to client metrics cannot be applied",
                level="error",
                subscription=name,
                reason=str(fault),
            )


def _points(compression: int, payload: bytes) -> list[Point]:
    opened = decompress(compression, payload, INFLATED_BYTES_MAX)
    return read_points(memoryview(opened))
