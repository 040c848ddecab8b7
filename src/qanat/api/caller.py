"""The client behind a request, as handlers see it: a Kafka connection or an HTTP request."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from qanat.security.authentication import Principal


class Caller(Protocol):
    """What handlers may know of a client and do to it."""

    principal: Principal

    def __hash__(self) -> int:
        """Callers are told apart by identity."""

    @property
    def host(self) -> str:
        """The client's address, without its port."""

    @property
    def is_inter_broker(self) -> bool:
        """Whether the request came over the listener for brokers."""

    @property
    def is_let_go(self) -> bool:
        """Whether this broker ended the conversation, and not the client."""

    def close(self) -> None:
        """End the conversation: a request without a response cannot be refused otherwise."""

    def wait_with(self, waiting: asyncio.Future[Any]) -> None:
        """Cancel `waiting` when the client goes away."""
