"""The store's keys in etcd: behind a prefix, so that several clusters and other programs can share it."""

from __future__ import annotations

from dataclasses import dataclass

from qanat.adapters.etcd_messages import KeyValue
from qanat.cluster.store import Entry, LeaseId, Revision


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of the port begin with `/`; all other keys behind the prefix are the adapter's own."""

    prefix: bytes

    def stored(self, key: str) -> bytes:
        return self.prefix + key.encode("ascii")

    def shown(self, stored: bytes) -> str:
        return stored[len(self.prefix) :].decode("ascii", errors="replace")

    def range_of(self, prefix: str) -> tuple[bytes, bytes]:
        """The first key below a prefix, and the first one after all of them."""
        start = self.stored(prefix)
        return start, start[:-1] + bytes((start[-1] + 1,))

    def note(self, process: str, number: int) -> bytes:
        return self.prefix + f"notes/{process}/{number}".encode("ascii")

    def entry(self, found: KeyValue) -> Entry:
        lease = LeaseId(found.lease) if found.lease else None
        return Entry(
            self.shown(found.key), found.value, Revision(found.create_revision), Revision(found.mod_revision), lease
        )
