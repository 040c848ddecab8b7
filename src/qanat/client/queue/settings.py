"""Settings of queue consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from qanat.client.settings import ClientSettings
from qanat.model.errors import InvalidSettingError


class QueueSettings(ClientSettings, frozen=True, kw_only=True):
    """What a queue consumer can be told."""

    group_id: str = ""
    """The share group."""
    lock: Literal["auto", "manual"] = "auto"
    """`auto` renews locks while records are unacknowledged; `manual` leaves that to `Verdict.RENEW`."""
    timeout_s: float = 3600.0
    """How long `auto` renews the lock of a record from when it is handed out; afterwards another consumer gets it.

    Records that wait in the client are renewed while the user polls at least so often."""
    max_poll_records: int = 500
    """Records of one `poll`, and of one fetch."""
    prefetch_records: int = 500
    """Fetching pauses while so many records wait to be polled; they are locked already."""
    fetch_max_wait_ms: int = 500
    """How long a broker may wait for records."""
    fetch_max_bytes: int = 16 * 1024 * 1024
    client_rack: str | None = None

    ALIASES: ClassVar[Mapping[str, str]] = {"fetch_wait_max_ms": "fetch_max_wait_ms", "group": "group_id"}
    IGNORED: ClassVar[frozenset[str]] = ClientSettings.IGNORED | {
        "share_acknowledgement_mode",
        "enable_auto_commit",
        "auto_offset_reset",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.group_id:
            raise InvalidSettingError("group is missing: a queue's consumers share the records of a group")
        for name in ("max_poll_records", "prefetch_records"):
            if getattr(self, name) < 1:
                raise InvalidSettingError(f"{name} must be at least 1")
