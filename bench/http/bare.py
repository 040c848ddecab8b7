"""The bare handler on the HTTP server's own protocol: `python -m bench.http.bare PORT`; reads and answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from uvicorn.config import Config
from uvicorn.server import ServerState

from qanat.servers.http.protocol import HttpProtocol
from qanat.servers.http.settings import HttpSettings

_ANSWER = b'{"partition":0,"offset":12345}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]


async def answer(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER})


async def serve(port: int) -> None:
    config = Config(answer, log_config=None, access_log=False, lifespan="off", proxy_headers=False)
    config.load()
    state, settings = ServerState(), HttpSettings()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpProtocol(config, state, {}, settings), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
