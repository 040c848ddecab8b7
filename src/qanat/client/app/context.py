"""`Context`: what a handler can know of the record that it handles, besides the payload."""

from __future__ import annotations

from qanat.client.records import Headers, Record


class HandlerCancelledError(Exception):
    """The record no longer belongs to this worker: its lock is lost, its partition revoked, or the worker stops."""


class Context:
    """The record, its headers, the attempt, and whether the handler should stop."""

    __slots__ = ("attempt", "fencing_token", "handler", "is_cancelled", "record")

    def __init__(
        self, handler: str, record: Record[bytes | None, bytes | None], attempt: int, fencing_token: int
    ) -> None:
        self.handler = handler
        """The handler's name."""
        self.record = record
        """The whole record, with key and value as bytes."""
        self.attempt = attempt
        """1 for the first try, 2 for the first retry, and so on."""
        self.fencing_token = fencing_token
        """Grows with every new owner of the record: a store that refuses smaller tokens is safe from zombies. It is the
        group's generation in a stream, and the delivery count in a queue."""
        self.is_cancelled = False
        """Whether the record no longer belongs to this worker. Coroutines are cancelled as well; threads look here."""

    def __repr__(self) -> str:
        return f"<Context {self.handler} {self.at} attempt {self.attempt}>"

    @property
    def at(self) -> str:
        """Topic, partition and offset, for logs and errors."""
        return f"{self.record.topic}-{self.record.partition} at offset {self.record.offset}"

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def headers(self) -> Headers:
        return self.record.headers

    def header(self, name: str) -> bytes | None:
        """The last header of that name; None where there is none."""
        for key, value in reversed(self.record.headers):
            if key == name:
                return value
        return None

    def check(self) -> None:
        """Raise `HandlerCancelledError` where the record no longer belongs to this worker, for handlers in threads."""
        if self.is_cancelled:
            raise HandlerCancelledError(f"{self.handler}: {self.at} no longer belongs to this worker")
