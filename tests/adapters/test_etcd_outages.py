"""The etcd metadata store under fire: members killed, frozen, away, leaders moved, while work goes on (C82).

Every commit writes a key of its own and counts a counter up, under compares. Afterwards: what was answered as done is
there and was done once, what was refused is not, and a watcher heard of everything once and in order.

`QANAT_STORE_OUTAGE_S=60 QANAT_STORE_ROUNDS=10` runs the long form; `make stores` does so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest
from tests.adapters.broken_line import line_to
from tests.adapters.etcd_servers import access_to, etcd_members

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_connection import EtcdConnection
from qanat.adapters.etcd_endpoints import Endpoint
from qanat.adapters.etcd_errors import EtcdFault
from qanat.adapters.etcd_store import EtcdStore
from qanat.adapters.etcd_wire import number
from qanat.app.node.etcd_server import EtcdMember
from qanat.cluster.store import Absent, Committed, Compacted, Compare, ModifiedAt, Put, Refused, Revision
from qanat.model.errors import StoreUnavailableError

OUTAGE_S = float(os.environ.get("QANAT_STORE_OUTAGE_S", "1.5"))
ROUNDS = int(os.environ.get("QANAT_STORE_ROUNDS", "1"))
HEALED_S = 60.0
WRITERS = 3
LEASE_MS = 3_000

pytestmark = [pytest.mark.long, pytest.mark.data, pytest.mark.timeout(0 if ROUNDS > 1 else 240)]


class Load:
    """Writers on one store, a watcher on another, and what became of everything."""

    def __init__(self, store: EtcdStore, watching: EtcdStore, start: Revision) -> None:
        self._store = store
        self._watching = watching
        self._start = start
        self._numbers = iter(range(1_000_000))
        self.done: dict[str, Revision] = {}
        self.refused: set[str] = set()
        self.doubtful: set[str] = set()
        self.heard: list[tuple[Revision, str]] = []

    async def write_for_ever(self) -> None:
        while True:
            try:
                await self._write(f"/n/{next(self._numbers):06}")
            except StoreUnavailableError:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.002)

    async def _write(self, key: str) -> None:
        counter = await self._store.get("/count")
        compare: Compare = Absent("/count") if counter is None else ModifiedAt("/count", counter.mod_revision)
        value = b"%d" % (1 + (0 if counter is None else int(counter.value)))
        try:
            outcome = await self._store.commit([compare, Absent(key)], [Put("/count", value), Put(key, value)])
        except StoreUnavailableError:
            self.doubtful.add(key)
            return
        match outcome:
            case Committed(revision):
                self.done[key] = revision
            case Refused():
                self.refused.add(key)

    async def watch_for_ever(self) -> None:
        async with aclosing(self._watching.watch("/n/", self._start)) as watcher:
            async for changes in watcher:
                assert not isinstance(changes, Compacted)
                self.heard += [(changes.revision, event.key) for event in changes.events]

    async def more_is_done(self, count: int = 20) -> None:
        """Wait until commits succeed again."""
        target = len(self.done) + count
        async with asyncio.timeout(HEALED_S):
            while len(self.done) < target:  # noqa: ASYNC110 - writers do not tell
                await asyncio.sleep(0.02)

    async def check(self) -> None:
        snapshot = await self._store.list("/n/")
        there = {entry.key: entry.create_revision for entry in snapshot.entries}
        counter = await self._store.get("/count")
        assert counter is not None
        assert there.items() >= self.done.items(), "answered as done, and not there"
        assert not there.keys() & self.refused, "answered as refused, and there"
        assert there.keys() <= self.done.keys() | self.doubtful
        assert int(counter.value) == len(there), "one of them happened twice"
        expected = sorted((revision, key) for key, revision in there.items())
        async with asyncio.timeout(HEALED_S):
            while len(self.heard) < len(expected):  # noqa: ASYNC110 - the watcher does not tell
                await asyncio.sleep(0.02)
        assert self.heard == expected


@asynccontextmanager
async def load_on(access: EtcdAccess) -> AsyncIterator[Load]:
    store, watching = await EtcdStore.open(access), await EtcdStore.open(access)
    # Watchers need not sit where writers do.
    watching._connection.switch_member(0)
    load = Load(store, watching, (await store.list("/")).revision)
    tasks = [
        asyncio.create_task(load.watch_for_ever()),
        *(asyncio.create_task(load.write_for_ever()) for _ in range(WRITERS)),
    ]
    try:
        await load.more_is_done()
        yield load
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        # One more, behind which nothing of a cancelled writer can come.
        await load._write("/n/last")
        load.doubtful |= {f"/n/{number:06}" for number in range(next(load._numbers))} - load.done.keys() - load.refused
        await load.check()
        assert not tasks[0].done(), "the watcher gave up"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()
        await watching.close()


async def leader_of(members: Sequence[EtcdMember]) -> tuple[int, list[int]]:
    """Which of the members leads, and all their ids."""
    async with asyncio.timeout(HEALED_S):
        while True:
            found = [await _status(member) for member in members]
            ids = [status.header.member_id for status in found if status is not None]
            leaders = {status.leader for status in found if status is not None and status.leader}
            if len(ids) == len(members) and len(leaders) == 1:
                return ids.index(leaders.pop()), ids
            await asyncio.sleep(0.1)


async def _status(member: EtcdMember) -> messages.StatusAnswer | None:
    connection = EtcdConnection(access_to([member], request_timeout_ms=2_000))
    try:
        answer, _ = await connection.call("read", messages.STATUS, b"", messages.read_status)
    except (StoreUnavailableError, EtcdFault):
        return None
    finally:
        await connection.close()
    return answer


async def kill_leader(members: Sequence[EtcdMember], load: Load) -> None:
    leader = members[(await leader_of(members))[0]]
    leader.kill()
    await load.more_is_done()
    leader.start()
    await asyncio.to_thread(leader.wait)


async def freeze_leader(members: Sequence[EtcdMember], load: Load) -> None:
    leader = members[(await leader_of(members))[0]]
    leader.pause()
    await load.more_is_done()
    leader.resume()


async def freeze_member_in_use(members: Sequence[EtcdMember], load: Load) -> None:
    member = members[load._store._connection.member]
    member.pause()
    await load.more_is_done()
    member.resume()


async def move_leader(members: Sequence[EtcdMember], load: Load) -> None:
    leader, ids = await leader_of(members)
    connection = EtcdConnection(access_to([members[leader]]))
    request = number(1, ids[(leader + 1) % len(ids)])
    try:
        await connection.call("administer", "/etcdserverpb.Maintenance/MoveLeader", request, bytes, is_repeatable=False)
    except (EtcdFault, StoreUnavailableError):
        pass  # It was moved by itself in the meantime, which is as good.
    finally:
        await connection.close()


async def stop_all(members: Sequence[EtcdMember], load: Load) -> None:
    for member in members:
        member.kill()
    done = len(load.done)
    await asyncio.sleep(OUTAGE_S)
    assert len(load.done) <= done + WRITERS
    for member in members:
        member.start()


async def freeze_all(members: Sequence[EtcdMember], load: Load) -> None:
    for member in members:
        member.pause()
    await asyncio.sleep(OUTAGE_S)
    for member in members:
        member.resume()


Fault = Callable[[Sequence[EtcdMember], Load], Awaitable[None]]
FAULTS: Sequence[Fault] = (kill_leader, freeze_leader, freeze_member_in_use, move_leader, stop_all, freeze_all)


@pytest.fixture(scope="module")
def members() -> Iterator[list[EtcdMember]]:
    with etcd_members(3) as found:
        yield found


async def test_c82_nothing_is_lost_or_doubled_whatever_befalls_etcd(members: list[EtcdMember]) -> None:
    async with load_on(access_to(members, attempt_timeout_ms=1_000)) as load:
        lease = await load._store.grant_lease(LEASE_MS)
        kept = load._store.keep(lease)
        for _ in range(ROUNDS):
            for fault in FAULTS:
                await fault(members, load)
                await load.more_is_done()
        # etcd begins the time of leases anew when it comes back or has another leader; when all of it was frozen, they
        # may be over. One is as good as the other, but it must be known.
        losing = asyncio.create_task(kept.lost())
        async with asyncio.timeout(HEALED_S):
            while kept.remaining_ms() <= 0 and not losing.done():  # noqa: ASYNC110 - a lease does not tell
                await asyncio.sleep(0.05)
        losing.cancel()


async def test_a_network_that_was_gone_is_used_again_though_old_connections_stay_dead(
    members: list[EtcdMember],
) -> None:
    async with line_to(members[0].plan.client_port) as line:
        way = EtcdAccess((Endpoint(f"127.0.0.1:{line.port}", False),), attempt_timeout_ms=500, prefix="by line:")
        async with load_on(way) as load:
            line.silence()
            await asyncio.sleep(OUTAGE_S)
            line.forget()
            await load.more_is_done()


async def test_c83_an_etcd_that_stutters_costs_nobody_its_lease(members: list[EtcdMember]) -> None:
    """Slow disks look like this (C83): it answers late, again and again."""
    async with load_on(access_to(members, prefix="stutter:")) as load:
        kept = load._store.keep(await load._store.grant_lease(LEASE_MS))
        losing = asyncio.create_task(kept.lost())
        for _ in range(4):
            for member in members:
                member.pause()
            await asyncio.sleep(0.5)
            for member in members:
                member.resume()
            await asyncio.sleep(0.5)
        assert not losing.done()
        losing.cancel()


async def test_c82_a_member_without_its_others_is_no_store(members: list[EtcdMember]) -> None:
    for member in members[1:]:
        member.pause()
    try:
        with pytest.raises(StoreUnavailableError, match="check that etcd runs"):
            await EtcdStore.open(access_to(members[:1], request_timeout_ms=3_000))
    finally:
        for member in members[1:]:
            member.resume()
