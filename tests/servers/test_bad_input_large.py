"""The largest requests: decoded, answered or refused, with other clients served meanwhile.

The goal is that no client waits longer than 50 ms for it on a quiet machine. What is asserted has room for a machine
that runs other tests as well; `python -m pytest -s` on this file prints what was measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from tests.servers.mutations import swollen
from tests.servers.test_bad_input import frame, request_layouts
from tests.servers.victim import TIMEOUT_S, Victim, ending

from qanat.api.api_table import SERVED, ServedApi
from qanat.model.errors import QanatError
from qanat.wire.kafka.reading import REQUEST_UNITS

LONGEST_WAIT_S = 1.0
GROWTH_BYTES = 200 * 1024 * 1024


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    started = Victim(tmp_path_factory.mktemp("victim"), "auto.create.topics.enable=false")
    yield started
    started.close()


def largest(served: ServedApi) -> bytes | None:
    """The request with the most rows that is still read."""
    version = served.last_version
    layout = request_layouts(served.api.name)[version]
    low, high = 0, REQUEST_UNITS + 1
    while high - low > 1000:
        middle = (low + high) // 2
        body = swollen(layout, middle)
        if body is None:
            return None
        try:
            served.api.codec.read_request(memoryview(body), version, 0)
            low = middle
        except QanatError:
            high = middle
    return swollen(layout, low)


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_the_largest_request_keeps_no_client_waiting_for_long(victim: Victim, served: ServedApi) -> None:
    body = largest(served)
    if body is None:
        return
    before = victim.rss_bytes
    with victim.watched() as waits, victim.connect() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(frame(served.key, served.last_version, body))
        assert ending(client, TIMEOUT_S) in ("answered", "closed")

    print(f"{served.api.name}: {len(body)} bytes, longest wait {max(waits) * 1000:.0f} ms")  # noqa: T201
    assert victim.bugs() == []
    assert max(waits) < LONGEST_WAIT_S
    assert victim.rss_bytes - before < GROWTH_BYTES
