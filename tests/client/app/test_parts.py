"""Parts of a worker: the health server, pools of processes."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from urllib.error import HTTPError

import pytest

from qanat.client import App
from qanat.client.app.handlers import Handler
from qanat.client.app.health_server import HealthServer
from qanat.client.app.pools import Pools

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def squared(number: int) -> None:
    raise RuntimeError(f"{number * number} in {os.getpid()}")


def handler_of(app: App) -> Handler:
    return app.handlers[-1]


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


def test_a_handler_that_holds_the_interpreter_runs_in_another_process() -> None:
    app = App("x:1")
    app.stream("numbers", run_in="process")(squared)
    pools = Pools()

    async def scene() -> None:
        with pytest.raises(RuntimeError, match=r"^49 in ") as caught:
            await pools.call_of(handler_of(app))(7, None)
        assert str(os.getpid()) not in str(caught.value)

    try:
        asyncio.run(scene())
    finally:
        pools.close()
