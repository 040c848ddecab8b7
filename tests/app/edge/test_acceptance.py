"""The edge's acceptance flow and its test registry, as processes and over HTTP."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.app.processes import QANAT, clean_environment, qanat, running_broker

from qanat.app.edge.acceptance import APPLICATION
from qanat.app.edge.cloud_feed import CloudFeed, FeedMessage
from qanat.app.edge.feed_delivery import DeliveryFailedError, deliver

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "application.yml"
FEED = [FeedMessage(f"k{n}", f"v{n}", headers={"n": str(n)}) for n in range(250)]


@pytest.fixture
def cloud() -> Iterator[CloudFeed]:
    found = CloudFeed({"prices": FEED}, "127.0.0.1", 0)
    thread = threading.Thread(target=found.server.serve_forever, args=(0.05,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def ask(url: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, str | None]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, names), timeout=10) as answer:
            return answer.status, json.loads(answer.read()), answer.headers["ETag"]
    except urllib.error.HTTPError as fault:
        text = fault.read()
        return fault.code, json.loads(text) if text else None, fault.headers["ETag"]


def test_five_prices_are_fed_stored_pushed_queried_and_committed(tmp_path: Path) -> None:
    done = qanat("edge", "acceptance", "--data-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    steps = [line.split(" s  ")[1] for line in done.stdout.splitlines()]
    assert [step for step in steps if "http" not in step] == [
        "cloud -> broker: 5 messages received (AAPL, GOOGL, MSFT, TSLA, AMZN)",
        "broker -> storage: 5 messages stored, at offsets 0 to 4",
        "broker -> consumer: 5 messages pushed",
        "consumer: 5 prices queried by key",
        "offset of price-group: 0 -> 5",
    ]


def test_the_flow_uses_the_yaml_of_the_examples() -> None:
    def plain(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]

    assert plain(APPLICATION) == plain(EXAMPLE.read_text())


def test_the_registry_answers_topology_registration_and_pages_of_the_feed(cloud: CloudFeed) -> None:
    topology = {
        "node": "local-001",
        "role": "LOCAL",
        "version": 1,
        "parents": [{"node": "cloud", "url": cloud.url, "dialect": "json"}],
        "topics": ["prices"],
    }
    assert ask(f"{cloud.url}/api/v1/edge/topology/local-001?timeout_ms=0") == (200, topology, '"1"')
    assert ask(f"{cloud.url}/api/v1/edge/topology/local-001", If_None_Match='"1"') == (304, None, '"1"')
    assert ask(f"{cloud.url}/api/v1/edge/nodes", b'{"node": "local-001", "new": 1}') == (200, topology, '"1"')
    status, page, _ = ask(f"{cloud.url}/api/v1/edge/feed/prices?offset=248&limit=100&node=x")
    assert (status, page["next_offset"], page["log_start_offset"]) == (200, 250, 0)
    assert page["messages"] == [
        {"offset": n, "key": f"k{n}", "value": f"v{n}", "headers": {"n": str(n)}} for n in (248, 249)
    ]
    assert ask(f"{cloud.url}/api/v1/edge/feed/prices?offset=900")[1]["messages"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "detail"),
    [
        ("/api/v1/edge/feed/prices?offset=-1", None, 400, "offset is '-1', but must be a whole number from 0"),
        (
            "/api/v1/edge/feed/prices?limit=1001",
            None,
            400,
            "limit is '1001', but must be a whole number from 0 to 1000",
        ),
        ("/api/v1/edge/feed/others", None, 404, "there is no feed 'others'; there are prices"),
        ("/api/v1/edge/topology/a%2f..", None, 404, "nothing is served at"),
        ("/api/v1/edge/nodes", b"[]", 400, 'a JSON object with "node" is needed'),
        ("/api/v1/edge/nodes", b"{", 400, 'a JSON object with "node" is needed'),
        ("/api/v1/edge/nodes", b'{"node": 7}', 400, "'7' is no node id"),
        ("/api/v1/edge/nodes", b" " * 70_000, 413, "a Content-Length of at most 65536 is needed"),
        ("/elsewhere", b"{}", 404, "nothing is served at '/elsewhere'"),
    ],
)
def test_what_the_registry_does_not_understand_gets_one_sentence(
    cloud: CloudFeed, path: str, body: bytes | None, status: int, detail: str
) -> None:
    code, problem, _ = ask(cloud.url + path, body)
    assert (code, problem["status"]) == (status, status)
    assert detail in problem["detail"]


def test_a_feed_is_written_once_however_often_it_is_delivered(tmp_path: Path) -> None:
    settings = ("--port", "0", "--data-dir", str(tmp_path), "-X", "http.port=0")
    with running_broker(tmp_path, *settings, environment={"QANAT_HTTP_PORT": "0"}) as broker:
        http = str(broker.started["http"])
        assert deliver(http, "prices", FEED[:120]) == 120
        assert deliver(http, "prices", FEED) == 130
        assert deliver(http, "prices", FEED) == 0
        page = ask(f"{http}/consume?topic=prices&partition=0&offset=0&count=500")[1]
        found = [(one["key"], one["value"], one["headers"]) for one in page["messages"]]
        assert found == [(one.key, one.value, one.headers) for one in FEED]
        assert (
            ask(f"{http}/api/v1/topics", b'{"name": "wide", "partitions": 2}', Content_Type="application/json")[0]
            == 201
        )
        with pytest.raises(DeliveryFailedError, match="wide has 2 partitions, but a feed needs one"):
            deliver(http, "wide", FEED)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--topic", "a b"), "--topic: Topic name is invalid: 'a b' contains"),
        (("--deliver-to", "localhost:8081"), "must be as in http://localhost:8081"),
        (("--feed", "nowhere.ndjson"), "--feed nowhere.ndjson cannot be read: No such file or directory"),
        (("--feed", "FILE"), "line 2 is no message: Object missing required field `value`"),
    ],
)
def test_a_wrong_call_of_the_registry_gets_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    feed = tmp_path / "feed.ndjson"
    feed.write_text('{"key": "a", "value": "b"}\n{"key": "c"}\n')
    done = qanat("edge", "test-registry", *(str(feed) if word == "FILE" else word for word in words))
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_the_registry_ends_cleanly_by_sigterm() -> None:
    command = [*QANAT, "edge", "test-registry", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("test registry at http://127.0.0.1:")
        process.terminate()
        assert process.wait(60) == 0
