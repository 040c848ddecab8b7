"""Users of a simulated cluster with ACLs, and an administrator who gives and takes their rights during faults.

`writer` may write while a rule allows it; `reader` may read as long as no rule denies it, and lets its fetches wait for
records. Both log in with SCRAM. All other clients are super users.

Checked with every response of a broker whose rules stayed the same meanwhile: the broker denies what its rules deny,
and nothing else; no record that was written after that reaches a fetch that waited. Checked with every acknowledged
change: the store has it, and the broker that answers decides by it. After healing, every broker decides as it was told
last. `acl_observer` compares brokers with the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from msgspec import Struct

from qanat.adapters.memory_store import MemoryStore
from qanat.app.acls import acl_requests
from qanat.broker.security.acl_entries import entry_of
from qanat.broker.security.user_credentials import credential_of
from qanat.cluster import keys, values
from qanat.cluster.acls import key_of
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Put
from qanat.connection.batch_producer import produce
from qanat.connection.cluster import Address, Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.link import Link
from qanat.connection.security import Credentials, Security
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import Operation, ResourceKind
from qanat.security.scram import ITERATIONS_MIN, verifier_of
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch
from verify.clusters.acl_observer import IN_FORCE_S, AclObserver
from verify.clusters.machine import PORT, USERS_PORT, Machine, wall_ms

TOPIC = "guarded"
WRITER, READER = "writer", "reader"
_MECHANISM = "SCRAM-SHA-256"
_PASSWORD = "a password of the simulation"
_OPERATION_S = 4.0
_WAIT_MS = 600
"""How long a fetch of the reader waits."""
_LATE_S = 10.0
"""A request whose outcome is unknown may be carried out so much later, by a broker that was paused."""
_SETTLED_S = 60.0
Note = Callable[[list[str]], None]
"""Notes what is wrong."""
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _rule(user: str, operation: Operation, permission: Permission, name: str, pattern: PatternType) -> Acl:
    return Acl(ResourceKind.TOPIC, name, pattern, f"User:{user}", ANY, operation, permission)


ALLOWS_WRITER = _rule(WRITER, Operation.WRITE, Permission.ALLOW, TOPIC, PatternType.LITERAL)
ALLOWS_READER = _rule(READER, Operation.READ, Permission.ALLOW, TOPIC[:5], PatternType.PREFIXED)
"""It stays: the reader loses its right by a rule that denies."""
DENIES_READER = _rule(READER, Operation.READ, Permission.DENY, TOPIC, PatternType.LITERAL)
_KEYS = {acl: key_of(entry_of(acl)) for acl in (ALLOWS_WRITER, ALLOWS_READER, DENIES_READER)}


class Belief(Struct, frozen=True):
    """What a broker thinks of both users, and the rules that it rests on."""

    process: int
    version: int
    may_write: bool
    may_read: bool

    @staticmethod
    def of(machine: Machine) -> Belief:
        if machine.node is None:
            return Belief(machine.starts, -1, may_write=False, may_read=False)
        image: MetadataImage = machine.node.broker.metadata.image
        has = {acl: key in image.acls for acl, key in _KEYS.items()}
        may_read = has[ALLOWS_READER] and not has[DENIES_READER]
        return Belief(machine.starts, image.acls_version, has[ALLOWS_WRITER], may_read)


def security_of(user: str) -> Security:
    """How a user logs in."""
    return Security(Credentials(_MECHANISM, user, _PASSWORD))


async def add_users(truth: MemoryStore) -> None:
    """Write both users to the store, as `qanat user add` does before the first broker starts."""
    for user in (WRITER, READER):
        verifier = verifier_of(_MECHANISM, _PASSWORD, user.encode().ljust(16), ITERATIONS_MIN)
        put = Put(keys.credential(user, _MECHANISM), values.encode(credential_of(verifier)))
        await truth.commit([], [put])


class Access:
    """The users, the administrator, and their checks."""

    def __init__(
        self, bootstrap: list[Address], machines: list[Machine], observer: AclObserver, note: Note, seed: int
    ) -> None:
        self._bootstrap = bootstrap
        self._machines = machines
        self._observer = observer
        self._random = Random(f"access {seed}")
        self._written: dict[bytes, list[Belief]] = {}
        """What each broker thought when a value was sent."""
        self._unsure_until_s: dict[Acl, float] = {}
        """Until when a request of unknown outcome may still change a rule."""
        self._links: dict[tuple[str, int], Link] = {}
        self._note = note
        self.is_over = False
        self.refusals = self.changes = 0
        """What was denied, and what the administrator changed: a run without any of it shows nothing."""

    def _found(self, problem: str) -> None:
        self._note([problem])

    async def prepare(self) -> None:
        """The standing rule, before the faults; the topic exists."""
        async with Cluster(self._bootstrap, "security", _SETTLED_S) as cluster:
            await acl_requests.create(cluster, [ALLOWS_READER])

    async def _pause(self, mean_s: float) -> None:
        await asyncio.sleep(self._random.expovariate(1 / mean_s))

    def _leader(self) -> Machine:
        """A machine that believes to lead the topic; any one where none does."""
        for machine in self._machines:
            if machine.node is not None and any(at.topic == TOPIC for at in machine.node.broker.partitions):
                return machine
        return self._random.choice(self._machines)

    def _drop_links(self, user: str) -> None:
        """Connect anew after a fault: a machine that lost its power leaves connections that stay silent."""
        for (who, _), link in self._links.items():
            if who == user:
                link.abort()

    async def _link(self, user: str, machine: Machine, deadline: Deadline) -> Link:
        link = self._links.get((user, machine.node_id))
        if link is None or not link.is_open:
            link = await Link.open(machine.host, USERS_PORT, user, deadline, security_of(user))
            self._links[user, machine.node_id] = link
        return link

    # Load

    async def fill(self, name: str) -> None:
        """A super user that writes to the topic, so that fetches wake."""
        number = 0
        async with Cluster(self._bootstrap, name, _OPERATION_S) as cluster:
            while not self.is_over:
                number += 1
                value = str(number).encode()
                self._written[value] = [Belief.of(machine) for machine in self._machines]
                with suppress(QanatError):
                    await produce(cluster, TOPIC, {0: _batch(value)}, -1, Deadline.after(_OPERATION_S))
                await self._pause(0.15)

    async def write(self, name: str) -> None:
        """The user that writes; what it writes has no number."""
        while not self.is_over:
            try:
                await self._write_to(self._leader())
            except QanatError:
                self._drop_links(WRITER)
            await self._pause(0.1)

    async def _write_to(self, machine: Machine) -> int:
        deadline = Deadline.after(_OPERATION_S)
        link = await self._link(WRITER, machine, deadline)
        before = Belief.of(machine)
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, memoryview(_batch(b"")))])
        request = ProduceRequest(acks=-1, timeout_ms=2000, topic_data=[data])
        response = await link.call(ApiKey.PRODUCE, request, deadline)
        code = int(response.responses[0].partition_responses[0].error_code)
        self._compare(WRITER, machine, before, code, is_allowed=before.may_write)
        return code

    async def read(self, name: str) -> None:
        """The user that reads, with fetches that wait."""
        position = 0
        while not self.is_over:
            try:
                code, position = await self._read_from(self._leader(), position)
                await self._pause(0.3 if code else 0.001)
            except QanatError:
                self._drop_links(READER)
                await self._pause(0.1)

    async def _read_from(self, machine: Machine, position: int, wait_ms: int = _WAIT_MS) -> tuple[int, int]:
        deadline = Deadline.after(_OPERATION_S)
        link = await self._link(READER, machine, deadline)
        before = Belief.of(machine)
        (row,) = await fetch(link, TOPIC, {0: position}, FetchLimits(max_wait_ms=wait_ms), deadline)
        after = self._compare(READER, machine, before, row.error_code, is_allowed=before.may_read)
        for record in row.records:
            beliefs = self._written.get(bytes(record.value or b""))
            if beliefs is None or machine.node is None:
                continue  # A broker that is starting or down has no rules to compare.
            if not after.may_read and beliefs[machine.node_id] == after:
                self._found(
                    f"late record: {machine.host} sent record {record.offset} to {READER}, written after it had lost "
                    "its right there"
                )
        return row.error_code, row.next_offset if row.error_code == 0 else position

    def _compare(self, user: str, machine: Machine, before: Belief, code: int, *, is_allowed: bool) -> Belief:
        """Compare a response with the rules of the broker, where they stayed the same since the request."""
        after = Belief.of(machine)
        self.refusals += code == _DENIED
        if before == after and machine.node is not None:
            if code == _DENIED and is_allowed:
                self._found(f"denied: {machine.host} denies {user} what its ACLs allow")
            if code != _DENIED and not is_allowed:
                self._found(f"let through: {machine.host} answers {code} to {user}, which its ACLs deny")
        return after

    # The administrator

    async def administer(self, name: str) -> None:
        """Give and take rights, one after another."""
        while not self.is_over:
            await self._pause(0.7)
            acl = self._random.choice((ALLOWS_WRITER, DENIES_READER))
            is_there = not self._observer.has(_KEYS[acl])
            for _ in range(20):
                if self.is_over or await self._change(acl, self._random.choice(self._machines), is_there=is_there):
                    break
                await self._pause(0.2)

    async def _change(self, acl: Acl, machine: Machine, *, is_there: bool) -> bool:
        """Create or delete a rule through one broker; returns whether it was acknowledged, and checks that."""
        process = machine.starts
        try:
            async with Cluster([(machine.host, PORT)], "security", _OPERATION_S) as cluster:
                await (acl_requests.create if is_there else acl_requests.delete)(cluster, [acl])
        except QanatError:
            self._unsure_until_s[acl] = asyncio.get_running_loop().time() + _LATE_S
            return False
        self.changes += 1
        if self._unsure_until_s.get(acl, 0.0) > asyncio.get_running_loop().time():
            return True
        what = f"{'create' if is_there else 'delete'} {acl}"
        if self._observer.has(_KEYS[acl]) != is_there:
            self._found(f"lost change: {machine.host} acknowledged to {what}, and the store has it otherwise")
        elif machine.node is not None and machine.starts == process:
            ours = machine.node.broker.metadata.image.acls
            if (_KEYS[acl] in ours) != is_there:
                self._found(f"early answer: {machine.host} acknowledged to {what}, and does not decide by it")
        return True

    # After the faults

    async def check_at_the_end(self) -> None:
        """Take both rights, then give them: every broker obeys."""
        async with asyncio.timeout(_SETTLED_S):
            while not self._observer.all_are_current:  # noqa: ASYNC110 - a look at the machines, not an event
                await asyncio.sleep(0.2)
            for is_allowed in (False, True):
                for acl, is_there in ((ALLOWS_WRITER, is_allowed), (DENIES_READER, not is_allowed)):
                    await self._insist(acl, is_there=is_there)
                await asyncio.sleep(IN_FORCE_S)
                for machine in self._machines:
                    await self._check_of(machine, is_allowed=is_allowed)

    async def _insist(self, acl: Acl, *, is_there: bool) -> None:
        while not await self._change(acl, self._random.choice(self._machines), is_there=is_there):
            await self._pause(0.2)

    async def _check_of(self, machine: Machine, *, is_allowed: bool) -> None:
        while True:
            try:
                codes = {WRITER: await self._write_to(machine), READER: (await self._read_from(machine, 0, 0))[0]}
                break
            except QanatError:
                self._drop_links(WRITER)
                self._drop_links(READER)
                await asyncio.sleep(0.2)
        for user, code in codes.items():
            if (code != _DENIED) != is_allowed:
                wanted = "granted" if is_allowed else "revoked"
                self._found(f"not in force: {wanted} for all, and {machine.host} answers {code} to {user}")


def _batch(value: bytes) -> bytearray:
    return encode_batch([Record(0, wall_ms(), b"", value)])
