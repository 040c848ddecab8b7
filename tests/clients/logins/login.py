"""How a client logs in: the mechanisms, what each one needs, and what every client must do with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

OAUTHBEARER, MTLS = "OAUTHBEARER", "mTLS"
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
"""Over `SASL_SSL`."""
MECHANISMS = (*SASL, MTLS)
"""mTLS over `SSL`."""


@dataclass(frozen=True)
class Login:
    """One identity at one listener, by one mechanism; each client takes what it needs."""

    mechanism: str
    address: str
    authority: str
    """The file with the certificate that signs the broker's."""
    name: str
    password: str
    token: str
    api_key: str
    """On HTTP only."""
    token_url: str
    """Gives `token` to the client `name` with the secret `password`."""
    chain: str
    key: str
    both: str
    """Files with the client's certificate, its key, and both."""

    @property
    def protocol(self) -> str:
        return "SSL" if self.mechanism == MTLS else "SASL_SSL"


EXAMPLE = {
    "authority": "/etc/qanat/authority.pem",
    "name": "alice",
    "password": "PASSWORD",
    "token": "TOKEN",
    "api_key": "qk_…",
    "token_url": "https://login.example/token",
    "chain": "/etc/qanat/alice-chain.pem",
    "key": "/etc/qanat/alice-key.pem",
    "both": "/etc/qanat/alice.pem",
}


def example(mechanism: str) -> Login:
    """The login of the documentation."""
    return Login(mechanism=mechanism, address="queue-1.example:9093", **EXAMPLE)


class LoginClient(Protocol):
    """One client library; what the broker refuses is raised, in the client's own words."""

    def write(self, login: Login, topic: str, values: Sequence[str]) -> None:
        """Log in and write to partition 0; return when all is acknowledged."""
        ...

    def read(self, login: Login, topic: str, count: int) -> list[str]:
        """Log in and read that many values from the start; as the group of the topic's name where there is one."""
        ...

    def close(self) -> None: ...
