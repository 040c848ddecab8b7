"""AlterUserScramCredentials (51): set and delete credentials of users that log in with SCRAM.

v0   flexible

A client sends the salted password, never the password; the broker keeps a verifier made from it. A change holds for the
next login: connections that are authenticated stay. Errors are Kafka's: a user is altered once in a request.
Deviation: an empty salt or a salted password of another size than the mechanism's is refused as
UNACCEPTABLE_CREDENTIAL; Kafka keeps them, and no client can log in with them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from qanat.api.admin_tasks import attempt, run_to_end, yielding
from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.api.security.scram_mechanisms import NAMES
from qanat.broker.broker import Broker
from qanat.broker.security.user_credentials import credential_of
from qanat.cluster.credentials import CredentialPlan, decide_delete, decide_upsert
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.security.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, verifier_of_salted
from qanat.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

Change = ScramCredentialDeletion | ScramCredentialUpsertion

_TWICE = Rejection(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NO_NAME = Rejection(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_NO_MECHANISM = Rejection(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW = Rejection(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY = Rejection(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NO_SALT = Rejection(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt must not be empty")
_WRONG_SIZE = Rejection(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password has not the size of the mechanism")


def authorize(request: AlterUserScramCredentialsRequest, access: AccessCheck) -> Verdict:
    """ALTER on the cluster."""
    names = dict.fromkeys(change.name for change in _changes(request))
    rows = [AlterUserScramCredentialsResult(name, DENIED, "Cluster authorization failed.") for name in names]
    return needs_cluster(Operation.ALTER, access, AlterUserScramCredentialsResponse(results=rows))


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    changes = _changes(request)
    times = Counter(change.name for change in changes)
    rows: dict[str, AlterUserScramCredentialsResult] = {}

    async def alter_all() -> None:
        async for change in yielding(changes):
            if change.name not in rows:
                outcome = _TWICE if times[change.name] > 1 else await _alter(change, context.broker)
                code, message = (outcome.code, outcome.message) if isinstance(outcome, Rejection) else (0, None)
                rows[change.name] = AlterUserScramCredentialsResult(change.name, int(code), message)

    await run_to_end(context.broker, alter_all())
    return AlterUserScramCredentialsResponse(results=list(rows.values()))


def _changes(request: AlterUserScramCredentialsRequest) -> list[Change]:
    return [*request.deletions, *request.upsertions]


async def _alter(change: Change, broker: Broker) -> CredentialPlan | Rejection:
    mechanism = NAMES.get(change.mechanism)
    if not change.name or mechanism is None:
        return _NO_NAME if not change.name else _NO_MECHANISM
    carry_out = broker.metadata_changes.carry_out
    if isinstance(change, ScramCredentialDeletion):
        return await attempt(carry_out(lambda image: decide_delete(image, change.name, mechanism)))
    if (refused := _refusal(change, mechanism)) is not None:
        return refused
    salted, salt = bytes(change.salted_password), bytes(change.salt)
    credential = credential_of(verifier_of_salted(mechanism, salted, salt, change.iterations))
    return await attempt(carry_out(lambda image: decide_upsert(change.name, mechanism, credential)))


def _refusal(change: ScramCredentialUpsertion, mechanism: str) -> Rejection | None:
    if change.iterations < ITERATIONS_MIN:
        return _TOO_FEW
    if change.iterations > ITERATIONS_MAX:
        return _TOO_MANY
    if not change.salt:
        return _NO_SALT
    return None if len(change.salted_password) == hashlib.new(HASHES[mechanism]).digest_size else _WRONG_SIZE
