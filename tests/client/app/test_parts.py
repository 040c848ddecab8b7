"""Parts of a worker: the health server."""

from __future__ import annotations

import asyncio
import urllib.request
from urllib.error import HTTPError

import pytest

from qanat.client import App
from qanat.client.app.health_server import HealthServer


def test_a_health_port_says_whether_the_app_is_well_and_serves_metrics() -> None:
    async def scene() -> None:
        async with HealthServer(App("x:1"), 0, "127.0.0.1") as server:
            url = f"http://127.0.0.1:{server.port}"
            with pytest.raises(HTTPError, match="503") as caught:
                await asyncio.to_thread(urllib.request.urlopen, f"{url}/health")
            assert caught.value.read() == b"the app does not run\n"
            caught.value.close()
            with pytest.raises(HTTPError, match="404") as missing:
                await asyncio.to_thread(urllib.request.urlopen, f"{url}/other")
            missing.value.close()
            with await asyncio.to_thread(urllib.request.urlopen, f"{url}/metrics") as answer:
                assert b"# TYPE qanat_app_records_handled_total counter" in answer.read()

    asyncio.run(scene())


def test_a_request_that_is_none_gets_no_traceback() -> None:
    server = HealthServer(App("x:1"), 0)
    assert server.answer(b"\x00\xff\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert server.answer(b"GET\r\n\r\n").startswith(b"HTTP/1.1 404")
