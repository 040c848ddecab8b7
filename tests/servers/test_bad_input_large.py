"""The largest requests: decoded, answered or refused, with other clients served meanwhile.

The goal is that no client waits longer than 50 ms for it on a quiet machine. What is asserted has room for a slow and
busy one; `python -m pytest -s` on this file prints what was measured.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator

import pytest
from tests.servers.mutations import swollen
from tests.servers.test_bad_input import frame, request_layouts
from tests.servers.victim import TIMEOUT_S, Victim, ending
from tools.codec.schema import Layout

from qanat.api.api_table import SERVED, ServedApi
from qanat.model.errors import QanatError
from qanat.wire.kafka.reading import BYTES_PER_UNIT, FREE_UNITS, REQUEST_UNITS
from qanat.wire.kafka.registry import ApiKey

GROWTH_BYTES = 200 * 1024 * 1024
_FEW_ROWS = 100
QUICK = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.OFFSET_COMMIT)
"""What `make test` looks at; `make test-long` looks at all others."""


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    started = Victim(tmp_path_factory.mktemp("victim"), "auto.create.topics.enable=false")
    yield started
    started.close()


def largest(served: ServedApi) -> bytes | None:
    """The request with the most rows that is still read: from the units that each row takes, then read once."""
    layout = request_layouts(served.api.name)[served.last_version]
    if swollen(layout, 0) is None:
        return None
    none = units_of(served, body_of(layout, 0))
    each = (units_of(served, body_of(layout, _FEW_ROWS)) - none) // _FEW_ROWS

    def is_refused(rows: int) -> bool:
        allowed = FREE_UNITS + len(body_of(layout, rows)) // BYTES_PER_UNIT
        return none + rows * each > min(allowed, REQUEST_UNITS)

    body = body_of(layout, bisect_left(range(REQUEST_UNITS + 2), True, key=is_refused) - 1)
    assert is_read(served, body, REQUEST_UNITS)
    return body


def body_of(layout: Layout, rows: int) -> bytes:
    body = swollen(layout, rows)
    assert body is not None
    return body


def units_of(served: ServedApi, body: bytes) -> int:
    """The fewest units that a caller has to allow for it."""
    return bisect_left(range(FREE_UNITS), True, key=lambda units: is_read(served, body, units))


def is_read(served: ServedApi, body: bytes, most_units: int) -> bool:
    try:
        served.api.codec.read_request(memoryview(body), served.last_version, 0, most_units)
    except QanatError:
        return False
    return True


@pytest.mark.parametrize(
    "served",
    [pytest.param(one, marks=[] if one.key in QUICK else [pytest.mark.long]) for one in SERVED.values()],
    ids=lambda served: served.api.name,
)
def test_the_largest_request_keeps_no_client_waiting_for_long(victim: Victim, served: ServedApi) -> None:
    body = largest(served)
    if body is None:
        return
    before = victim.rss_bytes
    with victim.watched() as waits, victim.connect() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(frame(served.key, served.last_version, body))
        assert ending(client, TIMEOUT_S) in ("answered", "closed")

    print(f"{served.api.name}: {len(body)} bytes, longest wait {max(waits).seconds * 1000:.0f} ms")  # noqa: T201
    assert victim.bugs() == []
    assert victim.rss_bytes - before < GROWTH_BYTES
