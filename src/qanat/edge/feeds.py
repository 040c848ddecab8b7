"""Feeds: parents that are no Qanat brokers, and give a node messages by topic and offset.

The port of the plug-in group `qanat.pipes`. The scheme of a parent's URL names its plug-in, as in `folder:///srv/spool`;
`http` and `https` are Qanat's own: a broker, or a feed in JSON.

Rule 1: an offset belongs to one message for ever. The node stores it there, once, and asks from the end of its log on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct, field

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

FeedOffset = Annotated[int, Meta(ge=0, le=2**62)]


class FeedMessage(Struct, frozen=True):
    """One message."""

    offset: FeedOffset
    type: Literal["M", "D"] = "M"
    timestamp: int | None = None
    """Milliseconds since 1970; the time of arrival without one."""
    key: str | None = None
    value: Any = None
    """Text as it is, any other JSON as its text."""
    headers: dict[str, str] = field(default_factory=dict)


class FeedAnswer(Struct, frozen=True):
    """Messages from an offset on."""

    messages: list[FeedMessage]
    next_offset: FeedOffset
    """Where the next question begins: behind the last message, and behind offsets that have none."""
    log_start_offset: FeedOffset = 0


class FeedGoneError(QanatError):
    """The feed does not have an offset any more."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, log_start_offset: int) -> None:
        super().__init__(f"the feed begins at offset {log_start_offset}")
        self.log_start_offset = log_start_offset


class FeedSettings(Struct, frozen=True):
    """What a plug-in is made with."""

    url: str
    """Of the parent, as the registry has it."""
    node: str
    """This node."""
    authorization: str = ""
    """The node's `edge.authorization`."""


class Feed(Protocol):
    """One parent. Calls come one at a time; any may be cancelled."""

    async def pull(self, topic: str, offset: int, limit: int, wait_s: float) -> FeedAnswer:
        """At most `limit` messages of a topic from an offset on; where there is none, wait up to `wait_s` for one.

        Raises `FeedGoneError` where the offset is gone, and any other exception where the feed cannot be read now: it
        is asked again later.
        """
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...


MakeFeed = Callable[[str, FeedSettings], Feed]
"""Makes the feed of a scheme; raises where no package brings it."""
