"""Users' SCRAM verifiers, as the metadata image has them, and the mechanisms that use them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

from qanat.cluster import keys, values
from qanat.cluster.store import Absent, Compare, Operation, Put
from qanat.security.scram import Scram, ScramVerifier

_NONCE_BYTES = 24
SECRET_BYTES = 32
_ATTEMPTS = 3


class CredentialImage(Protocol):
    """What the mechanisms need of the metadata image."""

    @property
    def credentials(self) -> Mapping[tuple[str, str], values.ScramCredential]: ...

    @property
    def scram_secret(self) -> bytes: ...


class CredentialStore(Protocol):
    """Commits to the metadata store, and its image."""

    @property
    def image(self) -> CredentialImage: ...

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool: ...


def scram_mechanism(mechanism: str, image: CredentialImage) -> Scram:
    """SCRAM with the users of the cluster; a change of a password holds for the next login."""
    return Scram(
        mechanism, lambda user: stored_verifier(mechanism, user, image), lambda: image.scram_secret, draw_nonce
    )


def stored_verifier(mechanism: str, user: str, image: CredentialImage) -> ScramVerifier | None:
    """The verifier of a user of the cluster; None where there is none."""
    found = image.credentials.get((user, mechanism))
    if found is None:
        return None
    return ScramVerifier(found.salt, found.stored_key, found.server_key, found.iterations)


def draw_nonce() -> str:
    """The broker's part of an exchange, which no client can guess."""
    return secrets.token_urlsafe(_NONCE_BYTES)


async def create_scram_secret(store: CredentialStore) -> None:
    """Write the secret that salts of unknown users are made from, where the cluster has none."""
    for _ in range(_ATTEMPTS):
        if store.image.scram_secret:
            return
        secret = values.ScramSecret(secret=secrets.token_bytes(SECRET_BYTES))
        await store.commit([Absent(keys.SCRAM_SECRET)], [Put(keys.SCRAM_SECRET, values.encode(secret))])
    raise values.UnreadableValueError(
        f"{keys.SCRAM_SECRET} of the metadata store cannot be read: delete that key, and start the broker again"
    )


def credential_of(verifier: ScramVerifier) -> values.ScramCredential:
    return values.ScramCredential(
        salt=verifier.salt,
        stored_key=verifier.stored_key,
        server_key=verifier.server_key,
        iterations=verifier.iterations,
    )
