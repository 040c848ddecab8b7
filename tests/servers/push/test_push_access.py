"""Who may do what over push: authentication, ACLs that change, TLS, limits before authentication."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.servers.push.push_peer import PushPeer, control
from tests.servers.tls.certificates import Authority, client_context

from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.servers.push import rights
from qanat.testing import BrokerHere
from qanat.wire.push.control import Ack, Credit, Heartbeat, Mode, Subscribe, encode_control
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType

EFFECTIVE_S = 5.0
"""Long before the next heartbeat; tests share a busy machine. How soon it is by design: `test_push_rights`."""
USERS = {"alice": "alice-secret", "admin": "admin-secret"}
RECORD = encode_record(PushedRecord(0, 0, -1, -1, 0, b"k", b"v"))


def secured() -> BrokerHere:
    return BrokerHere(users=USERS, settings={"super.users": "User:admin"})


async def fill(broker: BrokerHere, count: int = 1) -> None:
    async with PushPeer(broker) as admin:
        await admin.log_in("admin", USERS["admin"])
        await admin.ask(Heartbeat(1, topics=["prices"]))
        for _ in range(count):
            admin.send(FrameType.DATA, RECORD)
        for _ in range(count):
            assert not control(Ack, await admin.expect(FrameType.ACK)).error


@pytest.mark.parametrize(
    ("frame_type", "payload"),
    [
        (FrameType.SUBSCRIBE, b'{"topic":"prices","group":"g"}'),
        (FrameType.SUBSCRIBE, encode_control(Subscribe(1, topics=["prices"]))),
        (FrameType.DATA, RECORD),
        (FrameType.HEARTBEAT, encode_control(Heartbeat(1, topics=["prices"]))),
        (FrameType.HEARTBEAT, encode_control(Heartbeat(1, ask="consumers"))),
    ],
)
async def test_nothing_is_done_for_a_client_that_has_not_authenticated(frame_type: int, payload: bytes) -> None:
    async with secured() as broker, PushPeer(broker) as stranger:
        stranger.send(frame_type, payload)

        assert await stranger.reason() == "not-authenticated"


async def test_a_wrong_password_is_refused_without_a_reason() -> None:
    async with secured() as broker, PushPeer(broker) as stranger:
        with pytest.raises(AssertionError, match="authentication-failed"):
            await stranger.log_in("alice", "wrong")


async def test_a_session_with_an_end_is_renewed_by_the_same_user_and_by_no_other() -> None:
    settings = {"super.users": "User:admin", "connections.max.reauth.ms": "60000"}
    async with BrokerHere(users=USERS, settings=settings) as broker, PushPeer(broker) as admin:
        assert (await admin.log_in("admin", USERS["admin"])).lifetime_ms == 60_000
        assert (await admin.log_in("admin", USERS["admin"])).is_authenticated
        with pytest.raises(AssertionError, match="authentication-failed"):
            await admin.log_in("alice", USERS["alice"])


async def test_an_unknown_mechanism_is_answered_with_those_that_are_offered() -> None:
    async with secured() as broker, PushPeer(broker) as stranger:
        stranger.say(Heartbeat(1, mechanism="MAGIC", token=""))
        frame = await stranger.expect(FrameType.DISCONNECT)

        assert b"unknown-mechanism" in bytes(frame.payload)
        assert b"SCRAM-SHA-512" in bytes(frame.payload)


async def test_a_long_frame_before_authentication_is_refused_by_its_header() -> None:
    async with secured() as broker, PushPeer(broker) as stranger:
        stranger.write(struct.pack(">BQI", FrameType.HEARTBEAT, 1, 64 * 1024 + 1))

        assert await stranger.reason() == "malformed"


@pytest.mark.parametrize(
    ("rules", "wanted", "reason"),
    [
        ([], Subscribe(1, topics=["prices"]), "not-authorized"),
        ([{"topic": "prices"}], Subscribe(1, topics=["prices"], group="g"), "group-refused"),
        ([{"group": "g"}], Subscribe(1, topics=["prices"], group="g"), "not-authorized"),
        ([{"topic": "prices"}], Subscribe(1, topics=["prices"], group="g", mode=Mode.QUEUE), "group-refused"),
    ],
)
async def test_a_subscription_needs_read_on_topic_and_group(
    rules: list[dict[str, str]], wanted: Subscribe, reason: str
) -> None:
    async with secured() as broker, PushPeer(broker) as alice:
        await broker.create_topic("prices")
        for rule in rules:
            await broker.allow("alice", "read", **rule)
        await alice.log_in("alice", USERS["alice"])
        alice.say(wanted)
        while (frame := await alice.frame()).type != FrameType.DISCONNECT:
            assert frame.type != FrameType.DATA

        assert f'"reason":"{reason}"'.encode() in bytes(frame.payload)


async def test_with_its_rules_a_user_subscribes_and_produces() -> None:
    async with secured() as broker, PushPeer(broker) as reader, PushPeer(broker) as writer:
        await broker.create_topic("prices")
        await broker.allow("alice", "read", topic="prices")
        await broker.allow("alice", "read", group="g")
        await broker.allow("alice", "write", topic="prices")
        for client in (reader, writer):
            await client.log_in("alice", USERS["alice"])
        await reader.ask(Subscribe(1, topics=["prices"], group="g"))
        await writer.ask(Heartbeat(1, topics=["prices"]))
        writer.send(FrameType.DATA, RECORD)
        assert control(Ack, await writer.expect(FrameType.ACK)).offset == 0

        assert (await reader.record())[1].value == b"v"


async def test_a_removed_right_to_read_ends_the_subscription() -> None:
    async with secured() as broker, PushPeer(broker) as alice:
        await broker.create_topic("prices")
        await broker.allow("alice", "read", topic="prices")
        await alice.log_in("alice", USERS["alice"])
        await alice.ask(Subscribe(1, topics=["prices"], credit=Credit(10, 10_000)))
        await fill(broker)
        await alice.record()

        await broker.revoke("alice", "read", topic="prices")

        async with asyncio.timeout(EFFECTIVE_S):
            assert await alice.reason() == "not-authorized"


async def test_a_removed_right_ends_every_subscription_where_they_are_asked_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rights, "_AT_ONCE", 2)
    async with secured() as broker, AsyncExitStack() as open_clients:
        await broker.create_topic("prices")
        await broker.allow("alice", "read", topic="prices")
        clients = [await open_clients.enter_async_context(PushPeer(broker)) for _ in range(7)]
        for alice in clients:
            await alice.log_in("alice", USERS["alice"])
            await alice.ask(Subscribe(1, topics=["prices"]))

        await broker.revoke("alice", "read", topic="prices")

        async with asyncio.timeout(EFFECTIVE_S):
            assert [await alice.reason() for alice in clients] == ["not-authorized"] * 7


@pytest.mark.parametrize("removed", [{"topic": "prices"}, {"group": "g"}])
@pytest.mark.parametrize("mode", [Mode.LOG, Mode.QUEUE])
async def test_a_removed_right_to_topic_or_group_ends_the_subscription(mode: Mode, removed: dict[str, str]) -> None:
    async with secured() as broker, PushPeer(broker) as alice:
        await broker.create_topic("prices")
        await broker.allow("alice", "read", topic="prices")
        await broker.allow("alice", "read", group="g")
        await alice.log_in("alice", USERS["alice"])
        await alice.ask(Subscribe(1, topics=["prices"], group="g", mode=mode))
        while await alice.is_silent(0.1):  # A queue begins with the records after its first member.
            await fill(broker)
        await alice.record()

        await broker.revoke("alice", "read", **removed)

        async with asyncio.timeout(EFFECTIVE_S):
            assert await alice.reason() == "not-authorized"


async def test_no_record_that_is_written_after_a_right_was_removed_is_sent() -> None:
    async with secured() as broker, PushPeer(broker) as alice:
        await broker.create_topic("prices")
        await broker.allow("alice", "read", topic="prices")
        await alice.log_in("alice", USERS["alice"])
        await alice.ask(Subscribe(1, topics=["prices"]))

        await broker.revoke("alice", "read", topic="prices")
        await fill(broker)

        assert await alice.reason() == "not-authorized"


async def test_a_removed_right_to_write_refuses_the_next_record() -> None:
    async with secured() as broker, PushPeer(broker) as alice:
        await broker.create_topic("prices")
        await broker.allow("alice", "write", topic="prices")
        await alice.log_in("alice", USERS["alice"])
        await alice.ask(Heartbeat(1, topics=["prices"]))
        alice.send(FrameType.DATA, RECORD)
        assert not control(Ack, await alice.expect(FrameType.ACK)).error

        await broker.revoke("alice", "write", topic="prices")
        alice.send(FrameType.DATA, RECORD)

        assert control(Ack, await alice.expect(FrameType.ACK)).error == "topic-authorization-failed"
        assert len(await broker.records("prices")) == 1


async def test_only_who_may_describe_the_cluster_lists_consumers() -> None:
    async with secured() as broker, PushPeer(broker) as alice, PushPeer(broker) as admin:
        await alice.log_in("alice", USERS["alice"])
        await admin.log_in("admin", USERS["admin"])
        assert (await admin.ask(Heartbeat(1, ask="consumers"))).consumers == []
        alice.say(Heartbeat(1, ask="consumers"))

        assert await alice.reason() == "not-authorized"


async def test_on_a_listener_with_tls_the_first_byte_counts_after_the_handshake(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": authority.server().both,
        "storage.engine": "memory",
    }
    flags = [flag(name, value, name) for name, value in settings.items()]
    async with Node(load(flags, None, {}).settings) as node:
        address = f"127.0.0.1:{node.listener.port}"
        tls = client_context(authority)
        async with (
            PushPeer(address, tls) as producer,
            PushPeer(address, tls) as consumer,
            PushPeer(address, tls) as old,
        ):
            await producer.ask(Heartbeat(1, topics=["prices"]))
            await consumer.ask(Subscribe(1, topics=["prices"]))
            producer.send(FrameType.DATA, RECORD)
            assert (await consumer.record())[1].value == b"v"
            old.write(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            assert (await old._reader.readexactly(8))[4:] == struct.pack(">i", 7)
