"""Where users are: a running cluster, asked over the protocol, or the metadata store of a broker that need not run.

The store is for the first user, whom no administrator can add; running brokers that share it see the change.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeVar

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import Target, run
from qanat.app.node.metadata_store import open_store
from qanat.app.settings.loading import assignment, flag, load
from qanat.cluster import keys, values
from qanat.cluster.credentials import CredentialPlan, decide_delete, decide_upsert
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Committed, MetadataStore
from qanat.connection.cluster import Cluster
from qanat.connection.faults import RefusedError, check
from qanat.model.error_codes import ErrorCode
from qanat.security.scram import (
    HASHES,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    salted_password,
    verifier_of_salted,
)
from qanat.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from qanat.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from qanat.wire.kafka.registry import ApiKey

Result = TypeVar("Result")
Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
Mechanisms = Annotated[list[Mechanism] | None, Parameter(name=["--mechanism", "-m"], negative="")]
BOTH: tuple[Mechanism, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = {number: name for name, number in _NUMBERS.items()}
assert [*_NUMBERS] == [*HASHES]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Stored:
    """The metadata store of a broker, in place of a running cluster."""

    data_dir: Annotated[str | None, Parameter(name="--data-dir", metavar="PATH")] = None
    """Data directory of a broker on this machine, which need not run: the way to the first user."""
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None
    """Settings file of a broker, for its data directory or its etcd."""

    @property
    def is_given(self) -> bool:
        return self.data_dir is not None or self.config is not None


RUNNING = Stored()


class UserDirectory(Protocol):
    """Users and their SCRAM mechanisms."""

    async def iterations(self) -> Mapping[tuple[str, str], int]:
        """The iterations of every user and mechanism."""
        ...

    async def set(self, user: str, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> None: ...

    async def remove(self, user: str, mechanism: str) -> None: ...


def on_directory(target: Target, stored: Stored, work: Callable[[UserDirectory], Awaitable[Result]]) -> Result:
    """Open the directory, do the work, close it."""
    if not stored.is_given:
        return run(target, lambda cluster: work(ClusterUsers(cluster)))
    flags = [] if stored.data_dir is None else [flag("data.dir", stored.data_dir, "--data-dir")]
    flags += map(assignment, target.settings or ())
    settings = load(flags, stored.config, os.environ).settings
    if settings.storage_engine == "memory":
        raise WrongArgumentError("a broker in memory has no metadata store of its own: ask it while it runs")

    async def opened() -> Result:
        store = await open_store(settings)
        try:
            return await work(StoredUsers(store))
        finally:
            await store.close()

    return asyncio.run(opened())


def check_iterations(iterations: int) -> int:
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise WrongArgumentError(f"--iterations {iterations}: write {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return iterations


async def set_password(
    directory: UserDirectory, user: str, mechanism: str, password: str, iterations: int = ITERATIONS_MIN
) -> None:
    """Set a user's password for one mechanism; the directory never gets the password itself."""
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    await directory.set(user, mechanism, salted, salt, iterations)


class ClusterUsers:
    """The users of a running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def iterations(self) -> Mapping[tuple[str, str], int]:
        request = DescribeUserScramCredentialsRequest(None)
        response: DescribeUserScramCredentialsResponse = await self._cluster.call(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request, is_question=True
        )
        check("cannot list users", response.error_code, response.error_message)
        return {
            (row.user, _NAMES[info.mechanism]): info.iterations
            for row in response.results
            for info in row.credential_infos
            if info.mechanism in _NAMES
        }

    async def set(self, user: str, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> None:
        upsertion = ScramCredentialUpsertion(user, _NUMBERS[mechanism], iterations, salt, salted)
        await self._alter(AlterUserScramCredentialsRequest([], [upsertion]))

    async def remove(self, user: str, mechanism: str) -> None:
        deletion = ScramCredentialDeletion(user, _NUMBERS[mechanism])
        await self._alter(AlterUserScramCredentialsRequest([deletion], []))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        response: AlterUserScramCredentialsResponse = await self._cluster.call_controller(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request
        )
        for row in response.results:
            check(f"cannot change user {row.user}", row.error_code, row.error_message)


class StoredUsers:
    """The users in a metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def iterations(self) -> Mapping[tuple[str, str], int]:
        image = await self._image()
        return {who: credential.iterations for who, credential in image.credentials.items()}

    async def set(self, user: str, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> None:
        made = verifier_of_salted(mechanism, salted, salt, iterations)
        credential = values.ScramCredential(
            salt=made.salt, stored_key=made.stored_key, server_key=made.server_key, iterations=made.iterations
        )
        await self._commit(decide_upsert(user, mechanism, credential))

    async def remove(self, user: str, mechanism: str) -> None:
        plan = decide_delete(await self._image(), user, mechanism)
        if isinstance(plan, Rejection):
            check(f"cannot change user {user}", plan.code, plan.message)
            return
        await self._commit(plan)

    async def _image(self) -> MetadataImage:
        return MetadataImage.of(await self._store.list(keys.CREDENTIALS))

    async def _commit(self, plan: CredentialPlan) -> None:
        if not isinstance(await self._store.commit(plan.compares, plan.operations), Committed):
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"user {plan.user} was changed meanwhile: try again")
