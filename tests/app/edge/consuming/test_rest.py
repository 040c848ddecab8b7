"""The REST server of a consumer application without a broker: answers, pages, wrong questions."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.app.edge.consuming.stores import P0, P1, TOPIC, made, open_store, run, stored

from qanat.app.edge.consuming.application import ConsumerApplication
from qanat.app.edge.consuming.settings import ConsumerSettings
from qanat.model.errors import AddressInUseError
from qanat.model.ids import TopicPartition

Ask = Callable[..., Awaitable[tuple[int, Any]]]


def settings(folder: Path, **more: Any) -> ConsumerSettings:
    """Of a broker that is not there."""
    given = {"consumer.topic": TOPIC, "consumer.group": "g", "consumer.port": 0, "broker.port": 1}
    return ConsumerSettings.parse({**given, "storage.data.dir": str(folder), **more})


async def ask(application: ConsumerApplication, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    def asked() -> tuple[int, bytes]:
        request = urllib.request.Request(application.address + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as fault:
            return fault.code, fault.read()

    status, body = await asyncio.to_thread(asked)
    is_json = body[:1] in (b"{", b"[")
    return status, json.loads(body) if is_json else body


def fill(folder: Path) -> None:
    store = open_store(folder)
    stored(store, P0, run(0, 250))
    stored(
        store,
        P1,
        [
            made(0, "[1, 2]", key="odd/key", time=5000),
            made(1, "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), key="b"),
        ],
    )
    store.close()


async def indexed(application: ConsumerApplication) -> None:
    """Wait until its index is built: before that, questions about records get status 503."""
    async with asyncio.timeout(30):
        status, answer = await ask(application, "/api/v1/records")
        while status == 503:
            assert "being built" in answer["detail"] or "being compared" in answer["detail"]
            await asyncio.sleep(0.01)
            status, answer = await ask(application, "/api/v1/records")


async def test_pages_hold_everything_once(tmp_path: Path) -> None:
    fill(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        for query in ("", "key=k1&", "from_time=1010&to_time=1100&", "partition=0&from_offset=7&to_offset=90&"):
            found: list[tuple[int, int]] = []
            cursor: str | None = ""
            while cursor is not None:
                status, page = await ask(application, f"/api/v1/records?{query}limit=13{cursor and '&cursor='}{cursor}")
                assert status == 200, page
                found += [(one["partition"], one["offset"]) for one in page["records"]]
                cursor = page["next_cursor"]
            wanted = {
                "": [*((0, n) for n in range(250)), (1, 0), (1, 1)],
                "key=k1&": [(0, n) for n in range(1, 250, 3)],
                "from_time=1010&to_time=1100&": [(0, n) for n in range(10, 100)],
            }.get(query, [(0, n) for n in range(7, 90)])
            assert found == wanted, query


def refreshed(folder: Path, ends: dict[TopicPartition, tuple[int, int]]) -> None:
    """A refresh, from RESET to READY, while the application is away."""
    store = open_store(folder)
    store.reset("r1", ends)
    for at, (first, end) in ends.items():
        stored(store, at, run(first, end, "new"), "r1")
    store.ready("r1", ends)
    store.close()


def topic_made_again(folder: Path) -> None:
    store = open_store(folder)
    store.recreated(P0, "another")
    stored(store, P0, run(0, 250, "new"))
    store.close()


def log_cut(folder: Path) -> None:
    store = open_store(folder)
    stored(store, P0, run(200, 250, "new", epoch=1))
    store.close()


LISTINGS = (
    "records?",
    "records?key=k1&",
    "records?from_time=1010&",
    "records?partition=0&",
    "latest?",
    "latest?prefix=k&",
)


@pytest.mark.parametrize(
    "replace", [lambda folder: refreshed(folder, {P0: (0, 250), P1: (0, 2)}), topic_made_again, log_cut]
)
async def test_a_listing_does_not_go_on_in_what_replaced_its_records(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    fill(tmp_path)
    cursors: dict[str, str] = {}
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        for listing in LISTINGS:
            _, page = await ask(application, f"/api/v1/{listing}limit=1")
            cursors[listing] = page["next_cursor"]
    replace(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        for listing, cursor in cursors.items():
            status, problem = await ask(application, f"/api/v1/{listing}limit=1&cursor={cursor}")
            assert (status, problem["title"]) == (410, "Gone"), (listing, problem)
            assert "begin again, without cursor" in problem["detail"]
            assert (await ask(application, f"/api/v1/{listing}limit=1"))[0] == 200


async def test_a_listing_goes_on_over_a_restart_and_a_refresh_of_other_partitions(tmp_path: Path) -> None:
    fill(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        _, page = await ask(application, "/api/v1/records?partition=0&limit=9")
    refreshed(tmp_path, {P1: (0, 2)})
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        status, page = await ask(application, f"/api/v1/records?partition=0&limit=2&cursor={page['next_cursor']}")
    assert (status, [one["offset"] for one in page["records"]]) == (200, [9, 10])


async def test_a_cursor_of_another_listing_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        for listing in LISTINGS:
            _, page = await ask(application, f"/api/v1/{listing}limit=1")
            for other in LISTINGS:
                status, answer = await ask(application, f"/api/v1/{other}limit=2&cursor={page['next_cursor']}")
                if other == listing:
                    assert status == 200, (other, answer)
                else:
                    assert status == 400, (listing, other, answer)
                    assert answer["detail"].startswith("cursor is not one of this listing")


async def test_values_keys_and_the_database_are_what_was_stored(tmp_path: Path) -> None:
    fill(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        await indexed(application)
        _, one = await ask(application, f"/api/v1/records/{TOPIC}/1/0")
        assert (one["key"], one["value"], one["timestamp"]) == ("odd/key", [1, 2], 5000)
        _, page = await ask(application, "/api/v1/latest?key=odd%2Fkey")
        assert page["records"] == [one]
        _, page = await ask(application, "/api/v1/records?key_base64=azE=&limit=1")
        assert page["records"][0]["key"] == "k1"
        status, body = await ask(application, "/api/v1/database")
        (tmp_path / "copy.db").write_bytes(body)
        copy = sqlite3.connect(tmp_path / "copy.db")
        assert copy.execute("SELECT count(*), count(DISTINCT key) FROM records").fetchone() == (252, 5)
        assert copy.execute("SELECT value FROM records WHERE topic = ? AND key = 'odd/key'", (TOPIC,)).fetchall() == [
            ("[1, 2]",)
        ]
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert list((tmp_path / "transfer").iterdir()) == [], "the copy is gone from the disk"
        status, status_page = await ask(application, "/api/v1/status")
        assert (status, status_page["records"], [one["end_offset"] for one in status_page["partitions"]]) == (
            200,
            252,
            [250, 2],
        )


async def test_without_a_broker_it_is_degraded_and_says_why(tmp_path: Path) -> None:
    fill(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application, asyncio.timeout(30):
        reasons = ""
        while "cannot" not in reasons and "refused" not in reasons.lower():
            status, health = await ask(application, "/health")
            reasons = " ".join(health["reasons"])
            await asyncio.sleep(0.1)
        assert (status, health["status"], health["is_connected"]) == (200, "DEGRADED", False)
        _, text = await ask(application, "/metrics")
        assert b"qanat_consumer_connected 0" in text
        assert b'qanat_consumer_records{topic="prices",partition="0"} 250' in text


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/api/v1/records?offset=1", 400, "unknown query parameter 'offset'"),
        ("/api/v1/records?limit=0", 400, "limit"),
        ("/api/v1/records?limit=1001", 400, "limit"),
        ("/api/v1/records?limit=ten", 400, "limit"),
        ("/api/v1/records?partition=-1", 400, "partition"),
        ("/api/v1/records?from_offset=1", 400, "name one of 0, 1"),
        ("/api/v1/records?partition=0&from_offset=9&to_offset=3", 400, "to_offset is 3, before from_offset, 9"),
        ("/api/v1/records?from_time=9&to_time=3", 400, "to_time is 3, before from_time, 9"),
        ("/api/v1/records?key=a&key_base64=YQ==", 400, "give one of them"),
        ("/api/v1/records?key_base64=%C3%A9", 400, "key_base64"),
        ("/api/v1/records?cursor=nonsense!", 400, "cursor is not one of this listing"),
        ("/api/v1/records?cursor=kgAB", 400, "cursor is not one of this listing"),
        ("/api/v1/latest?cursor=kgAB", 400, "cursor is not one of this listing"),
        ("/api/v1/latest?key=a&prefix=b", 400, "prefix is for listings"),
        ("/api/v1/latest?key=a&cursor=kgAB", 400, "cursor is for listings"),
        ("/api/v1/records?topic=fx", 404, "this application keeps prices, not fx"),
        ("/api/v1/records?topic=prices&topic=prices", 400, "twice"),
        ("/api/v1/records/prices/0/9999", 404, "there is no record at offset 9999 of prices-0"),
        ("/api/v1/records/prices/7/0", 404, "there is no record at offset 0 of prices-7"),
        ("/api/v1/records/prices/0/x", 400, "offset is 'x'"),
        ("/api/v1/latest/nothing", 404, "there is no record of the key 'nothing'"),
        ("/api/v2", 404, "there is nothing at /api/v2"),
    ],
)
async def test_a_wrong_question_gets_one_sentence(tmp_path: Path, path: str, status: int, detail: str) -> None:
    store = open_store(tmp_path)
    stored(store, P0, run(0, 3))
    stored(store, P1, run(0, 3))
    store.close()
    async with ConsumerApplication(settings(tmp_path), {}) as application, asyncio.timeout(30):
        await indexed(application)
        found, problem = await ask(application, path)
    assert (found, problem["status"]) == (status, status), problem
    assert detail in problem["detail"]
    assert "\n" not in problem["detail"]


async def test_web_pages_of_others_are_refused(tmp_path: Path) -> None:
    async with ConsumerApplication(settings(tmp_path), {}) as application:
        assert (await ask(application, "/api/v1/status", {"Origin": "https://evil.example"}))[0] == 403
        assert (await ask(application, "/api/v1/status", {"Host": "evil.example"}))[0] == 421
        assert (await ask(application, "/api/v1/status"))[0] == 200
    async with ConsumerApplication(settings(tmp_path, **{"consumer.allowed.hosts": "till.example"}), {}) as application:
        assert (await ask(application, "/api/v1/status", {"Host": "till.example"}))[0] == 200


async def test_a_port_that_is_taken_gets_one_sentence_and_frees_the_data(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUseError, match=r"choose another CONSUMER_PORT"):
            async with ConsumerApplication(settings(tmp_path, **{"consumer.port": port}), {}):
                pass
    open_store(tmp_path).close()


async def test_a_damaged_index_is_answered_with_503_until_it_is_made_again(tmp_path: Path) -> None:
    fill(tmp_path)
    async with ConsumerApplication(settings(tmp_path), {}) as application, asyncio.timeout(30):
        await indexed(application)
        database = sqlite3.connect(tmp_path / "index.db")
        database.execute("UPDATE records SET key = x'42' WHERE offset = 3")
        database.commit()
        database.close()
        statuses: list[int] = []
        while not statuses or statuses[-1] != 200:
            status, answer = await ask(application, "/api/v1/records?limit=10&partition=0")
            statuses.append(status)
            await asyncio.sleep(0.05)
        assert statuses[0] == 503
        assert [one["key"] for one in answer["records"]] == [f"k{n % 3}" for n in range(10)]


async def test_a_damaged_segment_is_in_health_with_its_offsets_and_the_rest_is_answered(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for first in range(0, 100, 10):
        stored(store, P0, run(first, first + 10))
    store.close()
    log = min((tmp_path / "generations" / "1" / str(P0)).glob("*.log"))
    content = bytearray(log.read_bytes())
    content[80] ^= 0xFF
    log.write_bytes(content)
    async with ConsumerApplication(settings(tmp_path), {}) as application, asyncio.timeout(30):
        await indexed(application)
        _, page = await ask(application, "/api/v1/records?limit=1000")
        assert [one["offset"] for one in page["records"]] == list(range(10, 100))
        reasons = ""
        while "damaged" not in reasons:
            status, health = await ask(application, "/health")
            reasons = "; ".join(health["reasons"])
            await asyncio.sleep(0.1)
        assert (status, health["status"]) == (200, "DEGRADED")
        assert "prices-0 offsets 0 to 9; qanat push refresh g gets them again" in reasons
