"""Addresses of etcd's members. Imports nothing slow: settings are checked with it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT_PORT = 2379


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One member of the etcd cluster."""

    address: str
    is_tls: bool

    def __str__(self) -> str:
        return self.address


def parse_endpoints(text: str, *, is_tls: bool = False) -> tuple[Endpoint, ...]:
    """`https://a:2379,https://b:2379` or `a:2379,b`; without a scheme, `is_tls` decides.

    Raises `ValueError` saying what is wrong.
    """
    endpoints = tuple(_endpoint(part.strip(), is_tls) for part in text.split(",") if part.strip())
    if not endpoints:
        raise ValueError("write at least one endpoint, such as http://etcd-1:2379")
    addresses = [endpoint.address for endpoint in endpoints]
    twice = next((one for one in addresses if addresses.count(one) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is there twice")
    return endpoints


def _endpoint(text: str, is_tls: bool) -> Endpoint:
    scheme, separator, rest = text.partition("://")
    if separator and scheme not in ("http", "https"):
        raise ValueError(f"{text!r} begins with {scheme}://; write http:// or https://")
    try:
        parts = urlsplit(f"//{rest if separator else text}")
        host, port = parts.hostname, parts.port
    except ValueError as fault:
        raise ValueError(f"{text!r} is no endpoint: {fault}") from None
    if not host or parts.path.strip("/") or parts.username is not None:
        raise ValueError(f"{text!r} is no endpoint; write http://host:port")
    shown = f"[{host}]" if ":" in host else host
    return Endpoint(f"{shown}:{port or DEFAULT_PORT}", scheme == "https" if separator else is_tls)
