"""Bugs of ACLs: decisions that outlive their rules, fetches that wait, rules that are lost or return."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from qanat.api import authorization
from qanat.api import permissions as permissions_module
from qanat.api.permissions import Permissions
from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.cluster import keys, values
from qanat.cluster.acls import AclPlan, key_of
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import NO_REVISION, Put, Snapshot
from qanat.servers.kafka import fetch_fast_path
from verify.clusters.bug_bank.bug import Patches


def keep_decisions_of_old_rules(patches: Patches) -> None:
    """C87: the kept answers about a principal are used on when the rules have changed."""

    def current(permissions: Any, operation: int, kind: int) -> Any:
        question = operation * permissions_module._KINDS + kind
        if permissions._answers[question] is None:
            permissions._answers[question] = {}
        return permissions._answers[question]

    patches.put(Permissions, "_current", current)


def wake_without_a_look_at_the_rules(patches: Patches) -> None:
    """C87: a fetch that waited is answered by the rules of the time when it came."""

    def read(parked: Any) -> Any:
        return parked._fetches.read(parked._request, parked._partition)

    patches.put(fetch_fast_path._ParkedAnswer, "_read", read)
    patches.put(authorization, "_when_changed", lambda recheck, revision, request, access: lambda response: response)


def start_without_denials(patches: Patches) -> None:
    """C88: a broker that restarts loads the rules that allow, and loses those that deny."""
    catch_up = MetadataImage.catch_up

    def loaded(image: MetadataImage, snapshot: Snapshot) -> Any:
        if image.revision != NO_REVISION:
            return catch_up(image, snapshot)
        entries = tuple(
            entry
            for entry in snapshot.entries
            if not entry.key.startswith(keys.ACLS) or values.decode(values.AclEntry, entry.value).permission != "DENY"
        )
        return catch_up(image, replace(snapshot, entries=entries))

    patches.put(MetadataImage, "catch_up", loaded)


def keep_rules_that_are_deleted(patches: Patches) -> None:
    """C88: the authorizer takes new rules in, and leaves deleted ones in its index."""
    refresh = AclAuthorizer.refresh

    def refreshed(authorizer: Any) -> None:
        known = authorizer._known
        authorizer._image, image = _Growing(authorizer._image, known), authorizer._image
        try:
            refresh(authorizer)
        finally:
            authorizer._image = image

    patches.put(AclAuthorizer, "refresh", refreshed)


class _Growing:
    """An image whose rules only grow."""

    def __init__(self, image: Any, known: Any) -> None:
        self.acls_version = image.acls_version
        self.unreadable = image.unreadable
        self.acls = {key: entry for key, (entry, _) in known.items()} | image.acls


def create_by_what_is_known(patches: Patches) -> None:
    """C88: a rule that the broker still has is not written, though another broker has deleted it."""
    from qanat.api.security import create_acls

    def decided(image: MetadataImage, entries: Any) -> AclPlan:
        new = {key: entry for entry in entries if (key := key_of(entry)) not in image.acls}
        puts = tuple(Put(key, values.encode(entry)) for key, entry in new.items())
        return AclPlan(tuple(new.values()), (), (), puts)

    patches.put(create_acls, "decide_create", decided)


def delete_by_what_is_known(patches: Patches) -> None:
    """C88: rules that another broker has created are not found by the one that is asked to delete them."""
    from qanat.api.security import delete_acls

    async def nothing(broker: Any) -> None:
        pass

    patches.put(delete_acls, "_see_all", nothing)


def take_deletions_for_seen(patches: Patches) -> None:
    """C80: a deletion counts as seen when the watch has reached later changes, past it."""
    lacks = ImageWatcher._lacks

    def lacking(watcher: Any, operation: Any, revision: Any) -> bool:
        return isinstance(operation, Put) and lacks(watcher, operation, revision)

    patches.put(ImageWatcher, "_lacks", lacking)
