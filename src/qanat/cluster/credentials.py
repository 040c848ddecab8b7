"""Changes of users' credentials, decided, one user and mechanism at a time."""

from __future__ import annotations

from msgspec import Struct

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Compare, Delete, Operation, Put
from qanat.model.error_codes import ErrorCode

MISSING = Rejection(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


class CredentialPlan(Struct, frozen=True):
    """One commit, and the user that it changes."""

    user: str
    mechanism: str
    is_deletion: bool
    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]


def decide_upsert(user: str, mechanism: str, credential: values.ScramCredential) -> CredentialPlan:
    """Write a user's credential, over the one that is there."""
    put = Put(keys.credential(user, mechanism), values.encode(credential))
    return CredentialPlan(user, mechanism, is_deletion=False, compares=(), operations=(put,))


def decide_delete(image: MetadataImage, user: str, mechanism: str) -> CredentialPlan | Rejection:
    if (user, mechanism) not in image.credentials:
        return MISSING
    key = keys.credential(user, mechanism)
    return CredentialPlan(
        user, mechanism, is_deletion=True, compares=(image.unchanged(key),), operations=(Delete(key),)
    )
