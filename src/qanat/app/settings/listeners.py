"""Kafka's syntax for addresses: `PLAINTEXT://host:port`.

One listener without encryption is all there is for now. A `CONTROLLER` listener beside it is
passed over: files made for Kafka have one, and here there is no separate controller.
"""

from __future__ import annotations

import re

EVERYWHERE = "0.0.0.0"
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]]*):(?P<port>\d{1,5})")
_SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSED_OVER = "CONTROLLER"


def parse_listener(text: str) -> tuple[str, int]:
    """Host and port of the one plain listener; raises `ValueError` saying what is wrong."""
    found = [listener for item in text.split(",") if (listener := _parsed(item.strip())) is not None]
    if len(found) != 1:
        raise ValueError("there must be exactly one PLAINTEXT listener, such as PLAINTEXT://127.0.0.1:9092")
    return found[0]


def _parsed(item: str) -> tuple[str, int] | None:
    match = _LISTENER.fullmatch(item)
    if match is None:
        raise ValueError(f"{item!r} is no listener: write it as PLAINTEXT://127.0.0.1:9092")
    name, port = match["name"].upper(), int(match["port"])
    if name == _PASSED_OVER:
        return None
    if name in _SECURED:
        raise ValueError(f"{name} is not served yet: security comes later, until then use PLAINTEXT")
    if name != "PLAINTEXT":
        raise ValueError(f"listener {name} is not known: only PLAINTEXT is served for now")
    if port > 65535:
        raise ValueError(f"port {port} does not exist: the highest is 65535")
    return match["host"].strip("[]"), port
