# cython: language_level=3, annotation_typing=False
"""What one principal may do from one address: the authorizer's answers, kept as long as its rules stay the same.

Connections of the same principal and address share them. An authorizer without a revision
(`security.authorization.RevisedAuthorizer`) is asked every time. The rules of the APIs ask here, and the fast paths of
Produce and Fetch.

Compiled and interpreted like `log.partition_log`.
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.security.authentication import Principal
from qanat.security.authorization import Authorizer, Operation, Resource, ResourceKind, RevisedAuthorizer

_ANSWERS_MAX = 4096
"""Answers that are kept for an operation and kind; when there are more, these are forgotten and found again."""
_IDENTITIES_MAX = 256
_OPERATIONS, _KINDS = max(Operation) + 1, max(ResourceKind) + 1


class Permissions:
    """The answers for one principal and address."""

    __slots__ = (
        "_allowed",
        "_answers",
        "_authorizer",
        "_host",
        "_is_super",
        "_kind",
        "_name",
        "_resource",
        "_revised",
        "_revision",
        "principal",
    )

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str, *, is_super: bool = False) -> None:
        self._authorizer = authorizer
        self._revised = authorizer if isinstance(authorizer, RevisedAuthorizer) else None
        self.principal = principal
        self._host = host
        self._is_super = is_super
        self._revision = -1
        self._answers: list[dict[str | None, bool] | None] = [None] * (_OPERATIONS * _KINDS)
        """By operation and kind, then by name. No name: is there any?

        Every produce and fetch asks: a key of all three takes twice the instructions.
        """
        self._kind: ResourceKind | None = None
        self._name: str | None = None
        """The resource of the last question, by the very objects: the fast paths ask with the name that the partition
        has, and one client mostly asks for one topic."""
        self._allowed: Operation | None = None
        """What the rules of this revision allow on it."""
        self._resource: Resource | None = None
        """The same resource for an authorizer without a revision."""

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
            return self._ask(operation, kind, name)
        is_same = name is self._name and kind is self._kind and operation is self._allowed
        if is_same and self._revised.revision == self._revision:
            return True
        answers = self._current(operation, kind)
        answer = answers.get(name)
        if answer is None:
            answer = self._revised.allows(self.principal, self._host, operation, Resource(kind, name))
            _keep(answers, name, answer)
        self._kind, self._name, self._allowed = kind, name, operation if answer else None
        return answer

    def knows(self, operation: Operation, kind: ResourceKind, names: Iterable[str | None]) -> bool:
        """Whether it is known, and need not be asked, that the principal may do this to all of these resources.

        It is not where a name is missing or empty, except for a super user.
        """
        if self._is_super:
            return True
        if self._revised is None:
            return False
        answers = self._current(operation, kind)
        for name in names:  # noqa: SIM110 - a generator costs more than the question
            if not name or not answers.get(name):
                return False
        return True

    def _ask(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """The answer of an authorizer without a revision."""
        if self._resource is None or name is not self._name or kind is not self._kind:
            self._kind, self._name, self._resource = kind, name, Resource(kind, name)
        return self._authorizer.allows(self.principal, self._host, operation, self._resource)

    def allow_any(self, operation: Operation, kind: ResourceKind) -> bool | None:
        """Whether there is a resource of this kind to which the principal may do this; None where the authorizer
        cannot say."""
        if self._is_super or self._revised is None:
            return True if self._is_super else None
        answers = self._current(operation, kind)
        answer = answers.get(None)
        if answer is None:
            answer = self._revised.allows_any(self.principal, self._host, operation, kind)
            _keep(answers, None, answer)
        return answer

    def _current(self, operation: Operation, kind: ResourceKind) -> dict[str | None, bool]:
        """The answers of this revision, by name."""
        assert self._revised is not None, "only answers of a revision are kept"
        revision = self._revised.revision
        if revision != self._revision:
            self._answers = [None] * len(self._answers)
            self._revision, self._allowed = revision, None
        question = operation * _KINDS + kind
        answers = self._answers[question]
        if answers is None:
            answers = self._answers[question] = {}
        return answers


def _keep(answers: dict[str | None, bool], name: str | None, answer: bool) -> None:
    if len(answers) >= _ANSWERS_MAX:
        answers.clear()
    answers[name] = answer


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
