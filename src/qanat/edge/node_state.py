"""How a node does, as it tells its registry with every question, for `qanat edge tree`. Nothing depends on it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from qanat.edge.health import Health

HEADER = "Qanat-Edge-State"
_BYTES_MAX = 500
Count = Annotated[int, Meta(ge=0, le=2**53)]


class NodeState(Struct, frozen=True):
    """A node at the time of a question."""

    pipe: Health = Health.HEALTHY
    lag_records: Count = 0
    """Records below the parent's high watermark that it lacks."""
    stopped: Count = 0
    """Mirrored partitions that wait for lost records."""
    up_lag_records: Count = 0
    """Records of outboxes that the parent does not have yet."""
    up_waiting: Count = 0
    """Partitions of outboxes whose last request failed."""
    up_stopped: Count = 0
    """Partitions of outboxes that wait for their operator."""


_DECODER = msgspec.json.Decoder(NodeState)


def encode_state(state: NodeState) -> str:
    """The value of the header."""
    return msgspec.json.encode(state).decode()


def decode_state(header: bytes | None) -> NodeState | None:
    """What a header says; None where it says nothing that can be read."""
    if header is None or len(header) > _BYTES_MAX:
        return None
    try:
        return _DECODER.decode(header)
    except msgspec.MsgspecError:
        return None
