"""Changes of ACLs, decided. A rule's key is a digest of the rule, so that creating it twice is creating it once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import OPERATIONS_MAX, Compare, Delete, Operation, Put

_DIGEST_LETTERS = 40

ENTRIES_MAX = OPERATIONS_MAX
"""Rules in one commit."""


class AclPlan(Struct, frozen=True):
    """One commit, and the rules that it creates or deletes."""

    created: tuple[values.AclEntry, ...]
    deleted: tuple[values.AclEntry, ...]
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


def key_of(entry: values.AclEntry) -> str:
    """The key of a rule."""
    import hashlib  # Costly to import at every start, for rules that most clusters have none of.

    fields = (
        entry.resource_type,
        entry.name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )
    digest = hashlib.sha256("".join(f"{len(field)} {field}" for field in fields).encode())
    return keys.acl(digest.hexdigest()[:_DIGEST_LETTERS])


def decide_create(image: MetadataImage, entries: Sequence[values.AclEntry]) -> AclPlan:
    """Create rules; at most `ENTRIES_MAX` at once.

    Those that the image has are written as well: another broker may have deleted them, and the watch not have told yet.
    """
    wanted = {key_of(entry): entry for entry in entries}
    created = tuple(entry for key, entry in wanted.items() if key not in image.acls)
    return AclPlan(created, (), (), tuple(Put(key, values.encode(entry)) for key, entry in wanted.items()))


def decide_delete(image: MetadataImage, named: Sequence[str]) -> AclPlan:
    """Delete the rules under these keys that are still there; at most `ENTRIES_MAX` at once."""
    present = {key: image.acls[key] for key in named if key in image.acls}
    return AclPlan((), tuple(present.values()), (), tuple(map(Delete, present)))
