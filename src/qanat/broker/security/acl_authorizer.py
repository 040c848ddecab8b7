# cython: language_level=3, annotation_typing=False
"""The built-in authorizer: decides by the ACLs of the metadata image.

ACLs reach every broker by its watch of the metadata store. The next decision after a change takes it into the index:
only rules that came or went are touched.

Rule: a rule that cannot be read may be one that denies. While there is one, everything is denied, except to super
      users, and an error says which key it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from qanat.broker.security.acl_entries import UnknownRuleError, rule_of
from qanat.cluster import keys
from qanat.cluster.values import AclEntry
from qanat.security.acls import Acl, AclIndex, Decision
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.security.dry_run import DryRun, RecordedDenial, is_enforced
from qanat.telemetry.events import log_event


class AclImage(Protocol):
    """What the authorizer needs of the metadata image."""

    @property
    def acls(self) -> Mapping[str, AclEntry]: ...

    @property
    def acls_version(self) -> int: ...

    @property
    def unreadable(self) -> Mapping[str, str]: ...


class AclAuthorizer:
    """Decides by ACLs; `is_open` is `allow.everyone.if.no.acl.found`."""

    def __init__(self, image: AclImage, *, is_open: bool = False) -> None:
        self._image = image
        self._index = AclIndex(is_open=is_open)
        self._known: dict[str, tuple[AclEntry, Acl | None]] = {}
        self._version = -1
        self._unreadable: dict[str, str] = {}
        self.dry_run: DryRun | None = None
        """Records what no rule allows, where the authorizer only tries out its rules."""

    @property
    def revision(self) -> int:
        """Changes whenever a decision may change."""
        return self._image.acls_version

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return self.decide(str(principal), host, operation, resource).is_allowed

    def decide(self, principal: str, host: str, operation: Operation, resource: Resource) -> Decision:
        """The decision, with the rule that it rests on."""
        self.refresh()
        if self._unreadable:
            return Decision(is_allowed=False)
        return self._index.decide(principal, host, operation, resource)

    def lets_through(
        self, principal: Principal, host: str, operation: Operation, resource: Resource, *, is_recorded: bool = True
    ) -> bool:
        """Whether a dry run lets through what is not allowed: where no rule denies it, and nothing is at stake that
        outlasts the dry run."""
        if self.dry_run is None or is_enforced(operation, resource.kind):
            return False
        if self.decide(str(principal), host, operation, resource).acl is not None or self._unreadable:
            return False
        if is_recorded:
            self.dry_run.record(RecordedDenial(str(principal), operation, resource.kind, resource.name))
        return True

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        self.refresh()
        return not self._unreadable and self._index.decide_any(str(principal), host, operation, kind)

    def rules(self) -> Iterator[tuple[str, Acl]]:
        """Every rule with its key in the metadata store."""
        self.refresh()
        return ((key, acl) for key, (_, acl) in self._known.items() if acl is not None)

    def refresh(self) -> None:
        """Take in what changed since the last decision; at the start of a broker all rules, which takes longest."""
        if self._version == self._image.acls_version:
            return
        self._version = self._image.acls_version
        entries = self._image.acls
        unreadable = {key: why for key, why in self._image.unreadable.items() if key.startswith(keys.ACLS)}
        for key in [key for key, (entry, _) in self._known.items() if entries.get(key) is not entry]:
            _, gone = self._known.pop(key)
            if gone is not None:
                self._index.remove(gone)
        for key, entry in entries.items():
            if key not in self._known:
                try:
                    self._learn(key, entry)
                except UnknownRuleError as fault:
                    unreadable[key] = str(fault)
        self._report(unreadable)
        self._unreadable = unreadable

    def _learn(self, key: str, entry: AclEntry) -> None:
        acl = rule_of(entry)
        self._known[key] = entry, acl
        if acl is not None:
            self._index.add(acl)

    def _report(self, unreadable: Mapping[str, str]) -> None:
        for key, why in unreadable.items():
            if key not in self._unreadable:
                advice = "delete that key of the metadata store, or upgrade this broker"
                log_event("an ACL cannot be read: all is denied", level="error", key=key, reason=why, advice=advice)
