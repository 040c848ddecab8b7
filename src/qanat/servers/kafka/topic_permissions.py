# cython: language_level=3, annotation_typing=False
"""What one connection may do to topics: the authorizer's decisions, as long as its revision stays.

An authorizer says by `revision` that its decisions are those of before; one without it is asked with every request. A
fast path asks here, and takes the ordinary path where the answer is no: the API's rule words the refusal.

Compiled and interpreted like `log.append_state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.api.caller import Caller
    from qanat.broker.broker import Broker
    from qanat.servers.listener_security import ListenerSecurity

_DECISIONS_MAX = 10_000
"""Decisions that are kept; when there are more, all are forgotten and found again."""


class TopicPermissions:
    """The decisions for one connection and principal."""

    def __init__(self, security: ListenerSecurity, broker: Broker, caller: Caller) -> None:
        assert security.authorizer is not None, "an authorizer is configured"
        self.principal = caller.principal
        """Whom the decisions are for."""
        self._security = security
        self._authorizer: Any = security.authorizer
        self._broker = broker
        self._caller = caller
        self._is_revised = hasattr(security.authorizer, "revision")
        self._revision: object = None
        self._decided: dict[object, bool] = {}
        """By topic, as bytes for writes and as text for reads, and by transactional id, as a tuple."""

    def may_write(self, name: bytes) -> bool:
        """Whether the connection may write to a topic."""
        decided = self._current()
        found = decided.get(name)
        if found is None:
            found = decided[name] = self._access().may_topic(Operation.WRITE, name.decode())
        return found

    def may_use_transactional_id(self, transactional_id: bytes) -> bool:
        """Whether the connection may write in the transactions of an id."""
        decided, key = self._current(), (transactional_id,)
        found = decided.get(key)
        if found is None:
            access = self._access()
            found = decided[key] = access.may_transactional_id(Operation.WRITE, transactional_id.decode())
        return found

    def may_read(self, name: str) -> bool:
        """Whether the connection may read a topic."""
        decided = self._current()
        found = decided.get(name)
        if found is None:
            found = decided[name] = self._access().may_topic(Operation.READ, name)
        return found

    def _access(self) -> AccessCheck:
        return self._security.access(self._broker, self._caller, 0)

    def _current(self) -> dict[object, bool]:
        """The decisions that still hold, with room for one more."""
        if not self._is_revised:
            self._decided.clear()
        elif self._authorizer.revision != self._revision or len(self._decided) >= _DECISIONS_MAX:
            self._decided.clear()
            self._revision = self._authorizer.revision
        return self._decided
