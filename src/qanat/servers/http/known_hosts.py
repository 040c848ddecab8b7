"""The names by which clients may call a broker that requires no authentication.

A web page whose own name is made to resolve to the broker's address (DNS rebinding) is of the broker's origin for the
browser that shows it. Only the name that it calls the broker by tells it apart: `Host`.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qanat.cluster.image import MetadataImage

ANY = "*"
_KEPT_MAX = 256
"""Values of `Host` that are kept once they were found to be known."""


class KnownHosts:
    """Names of this broker: addresses, names without a dot, those of the cluster's listeners, and configured ones."""

    def __init__(self, configured: Sequence[str], image: MetadataImage) -> None:
        self._is_any = ANY in configured
        self._configured = {name.lower() for name in configured}
        self._image = image
        self.known: set[bytes] = set()
        """Values of `Host` that were accepted."""

    def require(self, host: bytes | None) -> None:
        """Refuse a request to a name that is not this broker's; HTTP/1.0 has none."""
        if host is None or host in self.known:
            return
        name = name_of(host)
        if not (self._is_any or is_local(name) or name in self._configured or name in self._names()):
            raise Problem(
                421,
                f"this broker is not known as {name!r}: call it by its address, list the name in http.allowed.hosts, "
                "or require authentication",
            )
        if len(self.known) >= _KEPT_MAX:
            self.known.clear()
        self.known.add(host)

    def _names(self) -> set[str]:
        return {socket.gethostname().lower(), *self._advertised()}

    def _advertised(self) -> Iterator[str]:
        for broker in self._image.brokers.values():
            for listener in broker.listeners:
                yield listener.host.lower()


def name_of(host: bytes) -> str:
    """The name in a `Host` header, without its port.

    >>> [name_of(host) for host in (b"Queue.example:8080", b"[::1]:80", b"10.0.0.1", b"queue.example.")]
    ['queue.example', '::1', '10.0.0.1', 'queue.example']
    """
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_local(name: str) -> bool:
    """Whether no page on the web can have this name.

    >>> [is_local(name) for name in ("localhost", "a.localhost", "queue", "10.0.0.1", "::1", "evil.example", "")]
    [True, True, True, True, True, False, True]
    """
    if "." not in name and ":" not in name:
        return True
    if name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
