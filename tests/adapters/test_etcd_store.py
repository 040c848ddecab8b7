"""The etcd metadata store where answers get lost, lines break and etcd itself is not as it should be (C80 to C83)."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path

import pytest
import trustme
from tests.adapters.broken_line import Line, line_to
from tests.adapters.etcd_servers import access_to, etcd_members

from qanat.adapters import etcd_messages as messages
from qanat.adapters import etcd_store, etcd_watch
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_connection import EtcdConnection
from qanat.adapters.etcd_endpoints import Endpoint, parse_endpoints
from qanat.adapters.etcd_keys import Keys
from qanat.adapters.etcd_store import EtcdStore
from qanat.adapters.etcd_versions import check_version
from qanat.adapters.etcd_wire import blob, message, number
from qanat.app.node.etcd_server import EtcdMember
from qanat.cluster.store import (
    COMMIT_BYTES_MAX,
    EMPTY_REVISION,
    OPERATIONS_MAX,
    Absent,
    Changes,
    Committed,
    Delete,
    LeaseId,
    ModifiedAt,
    Put,
    Refused,
    Revision,
)
from qanat.model.errors import LeaseExpiredError, StoreUnavailableError


@asynccontextmanager
async def opened(access: EtcdAccess) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.open(access)
    try:
        async with asyncio.timeout(90):
            yield store
    finally:
        await store.close()


def own_prefix() -> str:
    return f"test-{secrets.token_hex(6)}:"


def over(line: Line, prefix: str) -> EtcdAccess:
    """By way of a line; impatient, so that what is lost is noticed soon."""
    way = Endpoint(f"127.0.0.1:{line.port}", False)
    return EtcdAccess((way,), prefix=prefix, attempt_timeout_ms=500, request_timeout_ms=30_000)


async def lost(line: Line) -> None:
    """Wait until the line has lost something."""
    while not line.bytes_lost:  # noqa: ASYNC110 - the line does not tell
        await asyncio.sleep(0.01)


async def keys_below(access: EtcdAccess, prefix: bytes) -> list[bytes]:
    """What really lies in etcd."""
    connection = EtcdConnection(access)
    request = messages.range_request(prefix, prefix[:-1] + bytes((prefix[-1] + 1,)))
    answer, _ = await connection.call("read", messages.RANGE, request, messages.read_range)
    await connection.close()
    return [entry.key for entry in answer.entries]


async def test_a_commit_whose_answer_was_lost_is_known_to_have_happened(etcd_member: EtcdMember) -> None:
    prefix = own_prefix()
    direct = access_to([etcd_member], prefix=prefix)
    async with (
        line_to(etcd_member.plan.client_port) as line,
        opened(over(line, prefix)) as store,
        opened(direct) as other,
    ):
        await store.commit([], [Put("/before", b"")])
        line.loses_answers = True
        committing = asyncio.create_task(store.commit([Absent("/a")], [Put("/a", b"mine")]))
        async with aclosing(other.watch("/a", Revision((await other.list("/")).revision - 1))) as watcher:
            happened = await anext(watcher)
        line.heal()
        assert await committing == Committed(happened.revision)
        entry = await store.get("/a")
        assert entry is not None
        assert entry.create_revision == entry.mod_revision == happened.revision


async def test_a_commit_whose_effect_is_gone_again_is_known_to_have_happened(etcd_member: EtcdMember) -> None:
    prefix = own_prefix()
    direct = access_to([etcd_member], prefix=prefix)
    async with (
        line_to(etcd_member.plan.client_port) as line,
        opened(over(line, prefix)) as store,
        opened(direct) as other,
    ):
        await store.commit([], [Put("/before", b"")])
        line.loses_answers = True
        committing = asyncio.create_task(store.commit([Absent("/a")], [Put("/a", b"mine")]))
        async with aclosing(other.watch("/a", EMPTY_REVISION)) as watcher:
            happened = await anext(watcher)
        await other.commit([], [Delete("/a")])
        line.heal()
        # A second time the compare would hold again; it must not happen a second time.
        assert await committing == Committed(happened.revision)
        assert await store.get("/a") is None


async def test_a_refusal_whose_answer_was_lost_is_still_one(etcd_member: EtcdMember) -> None:
    prefix = own_prefix()
    async with line_to(etcd_member.plan.client_port) as line, opened(over(line, prefix)) as store:
        await store.commit([], [Put("/a", b"others")])
        line.loses_answers = True
        committing = asyncio.create_task(store.commit([Absent("/a")], [Put("/a", b"mine")]))
        await lost(line)
        line.heal()
        outcome = await committing
        assert isinstance(outcome, Refused)
        assert outcome.entries == (await store.get("/a"),)


async def test_a_commit_that_was_lost_on_its_way_is_sent_again(etcd_member: EtcdMember) -> None:
    prefix = own_prefix()
    async with line_to(etcd_member.plan.client_port) as line, opened(over(line, prefix)) as store:
        before = await store.commit([], [Put("/before", b"")])
        line.loses_requests = True
        committing = asyncio.create_task(store.commit([ModifiedAt("/before", before.revision)], [Delete("/before")]))
        await lost(line)
        line.heal()
        assert isinstance(await committing, Committed)
        assert await store.get("/before") is None


async def test_a_deletion_that_may_change_nothing_is_not_repeated(etcd_member: EtcdMember) -> None:
    prefix = own_prefix()
    async with line_to(etcd_member.plan.client_port) as line, opened(over(line, prefix)) as store:
        line.loses_answers = True
        with pytest.raises(StoreUnavailableError, match="cannot write the metadata store, etcd at"):
            await store.commit([], [Delete("/a")])
        line.heal()
        assert await store.get("/a") is None


async def test_many_commits_at_once_all_happen_once_over_a_line_that_keeps_breaking(etcd_member: EtcdMember) -> None:
    prefix = own_prefix()
    async with line_to(etcd_member.plan.client_port) as line, opened(over(line, prefix)) as store:

        async def count() -> None:
            for _ in range(10):
                while True:
                    entry = await store.get("/count")
                    compare = Absent("/count") if entry is None else ModifiedAt("/count", entry.mod_revision)
                    value = b"%d" % (1 + (int(entry.value) if entry is not None else 0))
                    if isinstance(await store.commit([compare], [Put("/count", value)]), Committed):
                        break

        async def disturb() -> None:
            for number in range(6):
                await asyncio.sleep(0.15)
                line.loses_answers = number % 2 == 0
                line.cut()
            line.heal()

        await asyncio.gather(disturb(), *(count() for _ in range(8)))
        entry = await store.get("/count")
        assert entry is not None
        assert entry.value == b"80"


async def test_a_silent_line_does_not_stop_a_watcher(etcd_member: EtcdMember, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_watch, "PROGRESS_S", 0.1)
    monkeypatch.setattr(etcd_watch, "STALL_S", 0.5)
    prefix = own_prefix()
    direct = access_to([etcd_member], prefix=prefix)
    async with line_to(etcd_member.plan.client_port) as line, opened(direct) as other:
        ways = (Endpoint(f"127.0.0.1:{line.port}", False), *direct.endpoints)
        async with opened(EtcdAccess(ways, prefix=prefix)) as store:
            start = (await store.list("/")).revision
            async with aclosing(store.watch("/", start)) as watcher:
                first = await other.commit([], [Put("/a", b"1")])
                assert (await anext(watcher)).revision == first.revision
                line.silence()
                second = await other.commit([], [Put("/a", b"2")])
                third = await other.commit([], [Put("/a", b"3")])
                assert [(await anext(watcher)).revision for _ in range(2)] == [second.revision, third.revision]


async def test_a_quiet_watch_is_left_alone(etcd_member: EtcdMember, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that answer are not given up: the stream of a quiet prefix lives on."""
    monkeypatch.setattr(etcd_watch, "PROGRESS_S", 0.05)
    streams = 0
    open_stream = EtcdConnection.open_stream

    async def counted(self: EtcdConnection, method: str, timeout_s: float | None = None) -> object:
        nonlocal streams
        streams += method == messages.WATCH
        return await open_stream(self, method, timeout_s)

    monkeypatch.setattr(EtcdConnection, "open_stream", counted)
    async with opened(access_to([etcd_member], prefix=own_prefix())) as store:
        async with aclosing(store.watch("/", (await store.list("/")).revision)) as watcher:
            hearing = asyncio.ensure_future(anext(watcher))
            await asyncio.sleep(1)
            assert not hearing.done()
            await store.commit([], [Put("/a", b"")])
            assert isinstance(await hearing, Changes)
        assert streams == 1


def answer_with(*revisions: int) -> messages.WatchAnswer:
    events = [messages.WatchEvent(entry=messages.KeyValue(b"p:/a", b"", revision, revision)) for revision in revisions]
    return messages.WatchAnswer(events=events)


def test_what_a_stream_says_twice_or_late_is_dropped() -> None:
    watch = etcd_watch.EtcdWatch(None, Keys(b"p:"), None, None)  # type: ignore[arg-type]
    heard = watch._changes(answer_with(3, 4, 5, 5, 6), Revision(4))
    assert [(change.revision, len(change.events)) for change in heard] == [(5, 2), (6, 1)]
    assert watch._changes(answer_with(2), Revision(4)) == []


async def test_a_list_of_many_pages_is_of_one_moment(etcd_member: EtcdMember, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_store, "PAGE_ENTRIES", 7)
    async with opened(access_to([etcd_member], prefix=own_prefix())) as store:
        names = [f"/k/{number:03}" for number in range(50)]
        await store.commit([], [Put(name, b"0") for name in names])

        async def write() -> None:
            for round_number in range(20):
                await store.commit([], [Put(name, b"%d" % round_number) for name in names])

        writing = asyncio.create_task(write())
        while not writing.done():
            snapshot = await store.list("/k/")
            assert [entry.key for entry in snapshot.entries] == names
            assert len({entry.value for entry in snapshot.entries}) == 1
        await writing


async def test_the_largest_commits_are_taken_and_heard_whole(etcd_member: EtcdMember) -> None:
    async with opened(access_to([etcd_member], prefix=own_prefix())) as store:
        start = (await store.list("/")).revision
        size = COMMIT_BYTES_MAX // OPERATIONS_MAX - 10
        for _ in range(5):
            await store.commit([], [Put(f"/n/{number}", b"x" * size) for number in range(OPERATIONS_MAX)])
        async with aclosing(store.watch("/", start)) as watcher:
            for _ in range(5):
                changes = await anext(watcher)
                assert isinstance(changes, Changes)
                assert len(changes.events) == OPERATIONS_MAX
        assert len((await store.list("/")).entries) == OPERATIONS_MAX


async def test_an_etcd_that_takes_less_says_so() -> None:
    with etcd_members(options=["--max-request-bytes", "10000", "--max-txn-ops", "20"]) as members:
        async with opened(access_to(members)) as store:
            with pytest.raises(StoreUnavailableError, match="--max-request-bytes"):
                await store.commit([], [Put("/a", b"x" * 20_000)])
            with pytest.raises(StoreUnavailableError, match="--max-txn-ops"):
                await store.commit([], [Put(f"/{number}", b"") for number in range(OPERATIONS_MAX)])
            assert isinstance(await store.commit([], [Put("/a", b"x")]), Committed)


async def test_notes_are_gone_when_the_store_closes(etcd_member: EtcdMember) -> None:
    access = access_to([etcd_member], prefix=own_prefix())
    notes = f"{access.prefix}notes/".encode()
    async with opened(access) as store:
        # Once there is a lease, all that begin together take a note before the first is answered.
        await store.commit([], [Put("/0", b"")])
        await asyncio.gather(*(store.commit([], [Put(f"/{number}", b"")]) for number in range(5)))
        assert len(await keys_below(access, notes)) == 5
        assert len((await store.list("/")).entries) == 5
    assert await keys_below(access, notes) == []
    assert len(await keys_below(access, access.prefix.encode())) == 5


async def test_commits_go_on_when_the_lease_of_the_notes_was_lost(etcd_member: EtcdMember) -> None:
    async with opened(access_to([etcd_member], prefix=own_prefix())) as store:
        for _ in range(3):
            before = await store.commit([], [Put("/a", b"")])
            lease = store._commits.lease
            assert lease is not None
            await store.revoke(lease)
            after = await store.commit([ModifiedAt("/a", before.revision)], [Put("/a", b"")])
            assert isinstance(after, Committed)
            with pytest.raises(LeaseExpiredError, match="lease 12345 is over"):
                await store.commit([], [Put("/b", b"", LeaseId(12345))])


# Opening.


def nobody() -> EtcdAccess:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    return EtcdAccess((Endpoint(f"127.0.0.1:{port}", False),), request_timeout_ms=300)


@pytest.fixture
def silent_server() -> Iterator[EtcdAccess]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield EtcdAccess((Endpoint(f"127.0.0.1:{server.getsockname()[1]}", False),), request_timeout_ms=600)


async def test_nobody_there_is_told() -> None:
    with pytest.raises(
        StoreUnavailableError, match=r"cannot read the metadata store, etcd at 127.*refused.*check that"
    ):
        await EtcdStore.open(nobody())


async def test_somebody_silent_is_told(silent_server: EtcdAccess) -> None:
    with pytest.raises(StoreUnavailableError, match=r"etcd at 127\.0\.0\.1:\d+: .*; check that etcd runs"):
        await EtcdStore.open(silent_server)


async def test_a_name_that_does_not_exist_is_told() -> None:
    access = EtcdAccess((Endpoint("no-such-host.invalid:2379", False),), request_timeout_ms=500)
    with pytest.raises(StoreUnavailableError, match=r"no-such-host\.invalid:2379"):
        await EtcdStore.open(access)


async def test_the_first_endpoint_may_be_dead(etcd_member: EtcdMember) -> None:
    ways = (*nobody().endpoints, *access_to([etcd_member]).endpoints)
    async with opened(EtcdAccess(ways, prefix=own_prefix())) as store:
        assert isinstance(await store.commit([], [Put("/a", b"")]), Committed)


async def test_members_of_two_clusters_are_not_mixed(etcd_member: EtcdMember) -> None:
    with etcd_members() as members:
        ways = (*access_to([etcd_member]).endpoints, *access_to(members).endpoints)
        async with opened(EtcdAccess(ways, prefix=own_prefix())) as store:

            async def ask_each() -> None:
                """A watch or lease that breaks meanwhile switches the member as well, and may switch back each time."""
                for _ in range(10 * len(ways)):
                    store._connection.switch_member(store._connection._switch_count)
                    await store.get("/a")

            with pytest.raises(StoreUnavailableError, match="belongs to another etcd cluster"):
                await ask_each()


@pytest.mark.parametrize(
    ("version", "words"),
    [("3.3.27", "needs 3.4 or newer"), ("3.5.0", "lose committed writes"), ("3.5.2", "lose committed writes")],
)
def test_an_etcd_that_cannot_be_relied_on_is_refused(version: str, words: str) -> None:
    with pytest.raises(StoreUnavailableError, match=words):
        check_version(version, nobody())


@pytest.mark.parametrize("version", ["3.4.23", "3.5.6", "3.6.0-rc.1", "3.7.3", "4.0.0"])
def test_an_etcd_that_can_be_relied_on_is_taken(version: str) -> None:
    check_version(version, nobody())


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("http://a:1,https://b:2", [("a:1", False), ("b:2", True)]),
        (" a , b:7 ", [("a:2379", False), ("b:7", False)]),
        ("http://[::1]:2379/", [("[::1]:2379", False)]),
    ],
)
def test_endpoints_are_read(text: str, addresses: list[tuple[str, bool]]) -> None:
    assert [(endpoint.address, endpoint.is_tls) for endpoint in parse_endpoints(text)] == addresses


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at least one"),
        (",", "at least one"),
        ("ftp://a:1", "http:// or https://"),
        ("http://a:port", "is no endpoint"),
        ("http://a:1/path", "is no endpoint"),
        ("a:1,a:1", "there twice"),
        ("http://", "is no endpoint"),
    ],
)
def test_endpoints_that_are_none_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_endpoints(text)


# TLS, users, space.


async def test_both_sides_show_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    ours, theirs = authority.issue_cert("client.test"), authority.issue_cert("127.0.0.1", "localhost")
    names = {"ca": tmp_path / "ca.pem", "cert": tmp_path / "cert.pem", "key": tmp_path / "key.pem"}
    authority.cert_pem.write_to_path(names["ca"])
    theirs.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    theirs.private_key_pem.write_to_path(tmp_path / "server.key")
    ours.cert_chain_pems[0].write_to_path(names["cert"])
    ours.private_key_pem.write_to_path(names["key"])
    port = nobody().endpoints[0].address.rpartition(":")[2]
    url = f"https://127.0.0.1:{port}"
    options = ["--listen-client-urls", url, "--advertise-client-urls", url, "--client-cert-auth"]
    options += ["--cert-file", str(tmp_path / "server.pem"), "--key-file", str(tmp_path / "server.key")]
    options += ["--trusted-ca-file", str(names["ca"])]
    with etcd_members(options=options, client_port=int(port)):
        right = EtcdAccess(parse_endpoints(url), str(names["ca"]), str(names["cert"]), str(names["key"]))
        async with opened(right) as store:
            assert isinstance(await store.commit([], [Put("/a", b"")]), Committed)
        stranger = EtcdAccess(parse_endpoints(url), str(names["ca"]), request_timeout_ms=1_000)
        with pytest.raises(StoreUnavailableError, match="cannot read the metadata store"):
            await EtcdStore.open(stranger)
        unknowing = EtcdAccess(parse_endpoints(url), request_timeout_ms=2_000)
        with pytest.raises(StoreUnavailableError, match=r"(?i)certificate"):
            await EtcdStore.open(unknowing)
        with pytest.raises(StoreUnavailableError, match=r"cannot read .*missing\.pem for the TLS connection"):
            await EtcdStore.open(EtcdAccess(parse_endpoints(url), str(tmp_path / "missing.pem")))


Ask = Callable[[str, bytes], Awaitable[bytes]]


@asynccontextmanager
async def administrator(access: EtcdAccess) -> AsyncIterator[Ask]:
    """Calls that the store itself has no use for."""
    connection = EtcdConnection(access)

    async def ask(method: str, request: bytes) -> bytes:
        answer, _ = await connection.call("administer", f"/etcdserverpb.{method}", request, bytes)
        return answer

    try:
        yield ask
    finally:
        await connection.close()


async def test_users_are_let_in_by_password_and_kept_to_their_prefix() -> None:
    with etcd_members() as members:
        async with administrator(access_to(members)) as ask:
            for user in (b"root", b"qanat"):
                await ask("Auth/UserAdd", blob(1, user) + blob(2, b"secret"))
            await ask("Auth/RoleAdd", blob(1, b"root"))
            await ask("Auth/RoleAdd", blob(1, b"broker"))
            permission = number(1, 2) + blob(2, b"mine:") + blob(3, b"mine;")
            await ask("Auth/RoleGrantPermission", blob(1, b"broker") + message(2, permission))
            await ask("Auth/UserGrantRole", blob(1, b"root") + blob(2, b"root"))
            await ask("Auth/UserGrantRole", blob(1, b"qanat") + blob(2, b"broker"))
            await ask("Auth/AuthEnable", b"")
        right = access_to(members, username="qanat", password="secret", prefix="mine:")
        async with opened(right) as store:
            lease = await store.grant_lease(5_000)
            assert isinstance(await store.commit([], [Put("/a", b"", lease.lease_id)]), Committed)
            await store.keep_alive(lease)
            async with aclosing(store.watch("/", EMPTY_REVISION)) as watcher:
                assert isinstance(await anext(watcher), Changes)
            store._connection._token = "not one of etcd's"
            assert await store.get("/a") is not None
        for wrong, words in (
            (access_to(members, prefix="mine:"), "etcd asks for a user"),
            (access_to(members, username="qanat", password="wrong", prefix="mine:"), "does not know this user"),
            (access_to(members, username="qanat", password="secret", prefix="theirs:"), "denies this user"),
        ):
            with pytest.raises(StoreUnavailableError, match=words):
                await EtcdStore.open(wrong)


async def test_a_user_for_an_etcd_without_any_is_told(etcd_member: EtcdMember) -> None:
    with pytest.raises(StoreUnavailableError, match=r"remove metadata\.etcd\.credentials"):
        await EtcdStore.open(access_to([etcd_member], username="qanat", password="secret"))


async def test_c83_space_that_is_used_up_is_told_and_freeing_it_heals() -> None:
    with etcd_members(options=["--quota-backend-bytes", str(3 << 20)]) as members:
        async with opened(access_to(members)) as store, administrator(access_to(members)) as ask:
            await store.commit([], [Put("/a", b"kept")])

            async def fill() -> None:
                while True:  # etcd looks at its size only now and then.
                    await store.commit([], [Put("/b", b"x" * 200_000)])

            with pytest.raises(StoreUnavailableError, match="space is used up"):
                await fill()
            entry = await store.get("/a")
            assert entry is not None
            assert entry.value == b"kept"
            await ask("KV/Compact", number(1, (await store.list("/")).revision) + number(2, 1))
            await ask("Maintenance/Defragment", b"")
            member = messages.read_status(await ask("Maintenance/Status", b"")).header.member_id
            await ask("Maintenance/Alarm", number(1, 2) + number(2, member) + number(3, 1))
            assert isinstance(await store.commit([], [Put("/a", b"again")]), Committed)
