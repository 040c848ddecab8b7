"""What one principal may do from one address: the authorizer's answers, kept as long as its rules stay the same.

Connections of the same principal and address share them. An authorizer without a revision
(`security.authorization.RevisedAuthorizer`) is asked every time.
"""

from __future__ import annotations

from qanat.security.authentication import Principal
from qanat.security.authorization import Authorizer, Operation, Resource, ResourceKind, RevisedAuthorizer

_DECISIONS_MAX = 4096
"""Answers that are kept; when there are more, all are forgotten and found again."""
_IDENTITIES_MAX = 256


class Permissions:
    """The answers for one principal and address."""

    __slots__ = ("_authorizer", "_decided", "_host", "_is_super", "_principal", "_revised", "_revision")

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str, *, is_super: bool = False) -> None:
        self._authorizer = authorizer
        self._revised = authorizer if isinstance(authorizer, RevisedAuthorizer) else None
        self._principal = principal
        self._host = host
        self._is_super = is_super
        self._revision = -1
        self._decided: dict[tuple[Operation, ResourceKind, str | None], bool] = {}

    def __eq__(self, other: object) -> bool:
        """Equal ones give equal answers."""
        if not isinstance(other, Permissions):
            return NotImplemented
        same = self._principal == other._principal and self._host == other._host
        return same and self._is_super == other._is_super and self._authorizer is other._authorizer

    def __hash__(self) -> int:
        return hash((self._principal, self._host, self._is_super))

    @property
    def revision(self) -> int:
        """The revision of the authorizer's rules; always the same where it has none."""
        return -1 if self._revised is None else self._revised.revision

    def allow(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """Whether the principal may do this to a resource."""
        if self._is_super:
            return True
        if self._revised is None:
            return self._authorizer.allows(self._principal, self._host, operation, Resource(kind, name))
        decided = self._current(self._revised.revision)
        answer = decided.get((operation, kind, name))
        if answer is None:
            answer = self._revised.allows(self._principal, self._host, operation, Resource(kind, name))
            decided[operation, kind, name] = answer
        return answer

    def allow_any(self, operation: Operation, kind: ResourceKind) -> bool | None:
        """Whether there is a resource of this kind to which the principal may do this; None where the authorizer
        cannot say."""
        if self._is_super or self._revised is None:
            return True if self._is_super else None
        decided = self._current(self._revised.revision)
        answer = decided.get((operation, kind, None))
        if answer is None:
            answer = self._revised.allows_any(self._principal, self._host, operation, kind)
            decided[operation, kind, None] = answer
        return answer

    def _current(self, revision: int) -> dict[tuple[Operation, ResourceKind, str | None], bool]:
        """The answers of this revision, with room for one more."""
        if revision != self._revision or len(self._decided) >= _DECISIONS_MAX:
            self._decided.clear()
            self._revision = revision
        return self._decided


class PermissionTable:
    """The permissions of principals that were seen lately."""

    def __init__(self, authorizer: Authorizer, super_users: tuple[str, ...]) -> None:
        self._authorizer = authorizer
        self._super_users = super_users
        self._known: dict[tuple[Principal, str], Permissions] = {}

    def of(self, principal: Principal, host: str) -> Permissions:
        found = self._known.get((principal, host))
        if found is None:
            if len(self._known) >= _IDENTITIES_MAX:
                self._known.pop(next(iter(self._known)))
            is_super = str(principal) in self._super_users
            found = self._known[principal, host] = Permissions(self._authorizer, principal, host, is_super=is_super)
        return found
