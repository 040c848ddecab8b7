"""Kafka's syntax for addresses: `PLAINTEXT://host:port`, several separated by commas.

A listener has a name, which is its security protocol or is mapped to one in `listener.security.protocol.map`. A
`CONTROLLER` listener is ignored: files made for Kafka have one, and Qanat has no separate controller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

EVERYWHERE = "0.0.0.0"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
RESERVED = ("HTTP", "METRICS")
"""Names of the servers that are not Kafka's: `listener.name.http.ssl.keystore.location`."""
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]]*):(?P<port>\d{1,5})")
_IGNORED = "CONTROLLER"


class ListenerAddress(NamedTuple):
    """A listener's name, its address, and the security protocol that clients must speak."""

    name: str
    host: str
    port: int
    protocol: str


def parse_protocols(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: protocols by the names of listeners."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = item.partition(":")
        if not separator or not name.strip():
            raise ValueError(f"{item!r} should read NAME:PROTOCOL, such as CLIENTS:SASL_PLAINTEXT")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(text: str, protocols: Mapping[str, str] | None = None) -> list[ListenerAddress]:
    """The listeners, at least one; raises `ValueError` with the reason. Without `protocols`, any name is one."""
    found = [one for item in text.split(",") if (one := _parsed(item.strip(), protocols)) is not None]
    if not found:
        raise ValueError("there must be at least one listener, such as PLAINTEXT://127.0.0.1:9092")
    for place, one in enumerate(found):
        for other in found[:place]:
            if one.name == other.name:
                raise ValueError(
                    f"there are two listeners {one.name}: give one a name of its own, and its protocol in "
                    "listener.security.protocol.map"
                )
    return found


def _parsed(item: str, protocols: Mapping[str, str] | None) -> ListenerAddress | None:
    match = _LISTENER.fullmatch(item)
    if match is None:
        raise ValueError(f"{item!r} is not a listener: write it as PLAINTEXT://127.0.0.1:9092")
    name, port = match["name"].upper(), int(match["port"])
    if name == _IGNORED:
        return None
    if name in RESERVED:
        raise ValueError(f"no listener can be called {name}: the name is taken")
    protocol = name if protocols is None else protocols.get(name, name)
    if protocols is not None and protocol not in PROTOCOLS:
        raise ValueError(
            f"listener {name} is not known: a name is one of {', '.join(PROTOCOLS)}, or has a protocol in "
            "listener.security.protocol.map"
        )
    if port > 65535:
        raise ValueError(f"port {port} does not exist: the highest is 65535")
    return ListenerAddress(name, match["host"].strip("[]"), port, protocol)
