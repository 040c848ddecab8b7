# cython: language_level=3, annotation_typing=False
"""What one principal may do from one address: the authorizer's answers, kept as long as its rules stay the same.

Connections of the same principal and address share them. An authorizer without a revision
(`security.authorization.RevisedAuthorizer`) is asked every time. The rules of the APIs ask here, and the fast paths of
Produce and Fetch.

Compiled and interpreted like `log.partition_log`.
"""

from __future__ import annotations

from qanat.security.authentication import Principal
from qanat.security.authorization import Authorizer, Operation, Resource, ResourceKind, RevisedAuthorizer

_DECISIONS_MAX = 4096
"""Answers that are kept; when there are more, all are forgotten and found again."""
_IDENTITIES_MAX = 256

_Question = tuple[Operation, ResourceKind, str | None]
"""No name: is there any?"""


class Permissions:
    """The answers for one principal and address."""

    __slots__ = ("_authorizer", "_decided", "_host", "_is_super", "_revised", "_revision", "principal")

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str, *, is_super: bool = False) -> None:
        self._authorizer = authorizer
        self._revised = authorizer if isinstance(authorizer, RevisedAuthorizer) else None
        self.principal = principal
        self._host = host
        self._is_super = is_super
        self._revision = -1
        self._decided: dict[_Question, bool] = {}

    def __eq__(self, other: object) -> bool:
        """Equal ones give equal answers."""
        if not isinstance(other, Permissions):
            return NotImplemented
        same = self.principal == other.principal and self._host == other._host
        return same and self._is_super == other._is_super and self._authorizer is other._authorizer

    def __hash__(self) -> int:
        return hash((self.principal, self._host, self._is_super))

    @property
    def revision(self) -> int:
        """The revision of the authorizer's rules; always the same where it has none."""
        return -1 if self._revised is None else self._revised.revision

    def allow(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """Whether the principal may do this to a resource."""
        if self._is_super:
            return True
        if self._revised is None:
            return self._authorizer.allows(self.principal, self._host, operation, Resource(kind, name))
        key = (operation, kind, name)
        answer = self._current().get(key)
        if answer is None:
            answer = self._revised.allows(self.principal, self._host, operation, Resource(kind, name))
            self._keep(key, answer)
        return answer

    def allow_any(self, operation: Operation, kind: ResourceKind) -> bool | None:
        """Whether there is a resource of this kind to which the principal may do this; None where the authorizer
        cannot say."""
        if self._is_super or self._revised is None:
            return True if self._is_super else None
        key = (operation, kind, None)
        answer = self._current().get(key)
        if answer is None:
            answer = self._revised.allows_any(self.principal, self._host, operation, kind)
            self._keep(key, answer)
        return answer

    def _current(self) -> dict[_Question, bool]:
        """The answers of this revision."""
        assert self._revised is not None, "only answers of a revision are kept"
        revision = self._revised.revision
        if revision != self._revision:
            self._decided.clear()
            self._revision = revision
        return self._decided

    def _keep(self, key: _Question, answer: bool) -> None:
        if len(self._decided) >= _DECISIONS_MAX:
            self._decided.clear()
        self._decided[key] = answer


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
