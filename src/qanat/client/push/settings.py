"""Settings of push clients."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qanat.client.settings import ClientSettings


class PushConsumerSettings(ClientSettings, frozen=True, kw_only=True):
    """What a push consumer can be told."""

    group_id: str = ""
    mode: Literal["", "log", "queue", "all"] = ""
    """`log` with a group and `all` without one, unless it is given."""
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    credit_records: Annotated[int, Meta(ge=1)] = 1_000
    """Records that may be on their way without an acknowledgement."""
    credit_bytes: Annotated[int, Meta(ge=1)] = 1024 * 1024


class PushProducerSettings(ClientSettings, frozen=True, kw_only=True):
    """What a push producer can be told."""

    enable_idempotence: bool = True
    """Whether a record that is repeated after a lost connection is written once."""
    max_unacknowledged: int = 10_000
    """Records without an acknowledgement; `send` waits while there are more."""
    delivery_timeout_ms: int = 120_000
    """How long a record may take, reconnections included."""
