"""A pipe from a folder: line n of `prices.jsonl` is the message at offset n of the topic `prices`."""

import asyncio
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from qanat.edge.feeds import FeedAnswer, FeedMessage, FeedSettings

PAUSE_S = 0.2


class Line(msgspec.Struct):
    """What a line says: `{"key": "AAPL", "value": "189.5"}`."""

    value: str
    key: str | None = None


class FolderFeed:
    """The feed of one folder, made with a URL such as `folder:///srv/spool`."""

    def __init__(self, settings: FeedSettings) -> None:
        self._folder = Path(unquote(urlsplit(settings.url).path))

    async def pull(self, topic: str, offset: int, limit: int, wait_s: float) -> FeedAnswer:
        """The next messages; where there are none, as soon as a line is added."""
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            messages = await asyncio.to_thread(self._read, topic, offset, limit)
            if messages or asyncio.get_running_loop().time() >= deadline:
                return FeedAnswer(messages, offset + len(messages))
            await asyncio.sleep(PAUSE_S)

    def _read(self, topic: str, offset: int, limit: int) -> list[FeedMessage]:
        with (self._folder / f"{topic}.jsonl").open("rb") as file:
            # A line without its end is being written.
            lines = [line for line in islice(file, offset, offset + limit) if line.endswith(b"\n")]
        rows = [msgspec.json.decode(line, type=Line) for line in lines]
        return [FeedMessage(at, key=row.key, value=row.value) for at, row in enumerate(rows, offset)]

    async def close(self) -> None:
        """Nothing is held open."""
