"""Kafka's syntax for addresses: `PLAINTEXT://host:port`.

A node has one listener, without encryption for now; it may require authentication (`SASL_PLAINTEXT`). Its name is its
security protocol, or is mapped to one. A `CONTROLLER` listener beside it is ignored: files made for Kafka have one, and
Qanat has no separate controller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

EVERYWHERE = "0.0.0.0"
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]]*):(?P<port>\d{1,5})")
_SERVED = ("PLAINTEXT", "SASL_PLAINTEXT")
_ENCRYPTED = ("SSL", "SASL_SSL")
_IGNORED = "CONTROLLER"


class ListenerAddress(NamedTuple):
    """Where to listen, and the security protocol that clients must speak."""

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


def parse_listener(text: str, protocols: Mapping[str, str] | None = None) -> ListenerAddress:
    """The one listener; raises `ValueError` with the reason."""
    found = [one for item in text.split(",") if (one := _parsed(item.strip(), protocols or {})) is not None]
    if len(found) != 1:
        raise ValueError(
            "there must be exactly one PLAINTEXT or SASL_PLAINTEXT listener, such as PLAINTEXT://127.0.0.1:9092"
        )
    return found[0]


def _parsed(item: str, protocols: Mapping[str, str]) -> ListenerAddress | None:
    match = _LISTENER.fullmatch(item)
    if match is None:
        raise ValueError(f"{item!r} is not a listener: write it as PLAINTEXT://127.0.0.1:9092")
    name, port = match["name"].upper(), int(match["port"])
    if name == _IGNORED:
        return None
    protocol = protocols.get(name, name)
    if protocol in _ENCRYPTED:
        raise ValueError(f"{protocol} is not served yet: encryption comes later, until then use PLAINTEXT")
    if protocol not in _SERVED:
        raise ValueError(
            f"listener {name} is not known: only {' and '.join(_SERVED)} are served for now, "
            "or give it a protocol in listener.security.protocol.map"
        )
    if port > 65535:
        raise ValueError(f"port {port} does not exist: the highest is 65535")
    return ListenerAddress(match["host"].strip("[]"), port, protocol)
