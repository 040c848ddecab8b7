"""A process that appends and prints what is acknowledged, until it is killed: `python -m demo.writer DIR`."""

from __future__ import annotations

import asyncio
import sys

from qanat.app.node.compose import Logs, clock_ms, open_log_directory
from qanat.log.settings import LogSettings
from qanat.model.ids import TopicPartition
from qanat.wire.records import Record, encode_batch

PARTITION = TopicPartition("orders", 0)
_AT_ONCE = 8
_RECORDS = 20


async def write_for_ever(path: str) -> None:
    """Append from several tasks; print the end of each acknowledged batch as soon as it is on disk."""
    async with Logs(open_log_directory(path)) as runtime:
        log = await runtime.create(PARTITION, "demo", LogSettings())

        async def append() -> None:
            while True:
                batch = encode_batch([Record(number, clock_ms(), b"order", b"x" * 200) for number in range(_RECORDS)])
                appended = await runtime.append(log, batch, 0)
                await runtime.flushed(log, appended.last_offset + 1)
                print(appended.last_offset + 1, flush=True)

        await asyncio.gather(*(append() for _ in range(_AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(write_for_ever(sys.argv[1]))
