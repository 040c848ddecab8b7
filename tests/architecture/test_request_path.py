"""The calls of a produce and a fetch go down through the layers, and climb back only with the answer.

servers -> api -> broker -> (replication | log | ...) -> (wire | telemetry | model | adapters)

A call may skip a layer: the fast paths do. A call that climbs is a callback that a higher layer registered; all of them
are listed here, each with its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.architecture.followed_calls import ROOT, Call

LAYERS = {
    "app": 6,
    "servers": 5,
    "api": 4,
    "broker": 3,
    "log": 2,
    "replication": 2,
    "cluster": 2,
    "wire": 1,
    "telemetry": 1,
    "model": 1,
    "adapters": 1,  # Behind the ports that the log declares.
}
CALLBACKS = {
    "qanat.app.node.compose:clock_ms": "the clock, which the composition root gives to the log",
    "qanat.broker.replicas.local_replicas:LocalReplicas._on_flushed": "a flush moves the high watermark",
    "qanat.broker.replicas.durable_acknowledgement:DurableAcknowledgement._settled": "a batch is durable",
    "qanat.servers.kafka.produce_fast_path:_DurableAnswer._complete": "the answer of a produce, once it is durable",
    "qanat.api.records.produce:Produce.answer.<locals>.<lambda>": "the response of a produce, once it is durable",
    "qanat.servers.kafka.fetch_fast_path:_ParkedAnswer.wait_for_more": "a parked fetch of one partition waits on",
    "qanat.servers.kafka.fetch_fast_path:_ParkedAnswer.stop_waiting": "a parked fetch of one partition ends",
    "qanat.servers.kafka.fetch_fast_path:_ParkedAnswer.is_due": "an append wakes a parked fetch of one partition",
    "qanat.servers.kafka.fetch_fast_path:_ParkedAnswer._retry": "a parked fetch of one partition reads again",
    "qanat.api.records.parked_response:ParkedResponse._retry": "a parked fetch reads again",
    "qanat.servers.kafka.dispatch:_SyncAnswer._done": "the answer of a parked fetch or a durable produce",
    "qanat.broker.runtime.parked_tasks:ParkedTasks.discard": "an answer that is there is parked no more",
    "qanat.servers.kafka.connection:KafkaConnection.cancel_on_disconnect": "the caller of the request (`api.caller`)",
}
"""The only functions that a lower layer calls, each with its reason."""
Followed = dict[str, list[Call]]


@pytest.fixture(scope="module")
def followed() -> Followed:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.architecture.followed_calls"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return {name: [(caller, callee) for caller, callee in calls] for name, calls in json.loads(ran.stdout).items()}


def package(function: str) -> str:
    return function.split(".")[1]


def climbs(calls: list[Call]) -> dict[str, str]:
    """Callees that a lower layer calls, and by which function."""
    return {callee: caller for caller, callee in calls if caller and LAYERS[package(callee)] > LAYERS[package(caller)]}


SCENARIOS = [
    f"{request}, {path} path" for request in ("produce", "fetch", "parked fetch") for path in ("fast", "ordinary")
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_call_climbs_only_by_a_registered_callback(followed: Followed, scenario: str) -> None:
    found = climbs(followed[scenario])

    assert {callee: caller for callee, caller in found.items() if callee not in CALLBACKS} == {}


def test_every_listed_callback_is_called(followed: Followed) -> None:
    called = {callee for calls in followed.values() for callee in climbs(calls)}

    assert sorted(CALLBACKS.keys() - called) == []


@pytest.mark.parametrize(
    ("scenario", "steps"),
    [
        ("produce, fast path", ["servers wire", "servers broker", "broker log", "log adapters"]),
        ("produce, ordinary path", ["servers wire", "servers api", "api broker", "broker log", "log wire"]),
        ("fetch, fast path", ["servers wire", "servers broker", "broker log"]),
        ("fetch, ordinary path", ["servers wire", "servers api", "api broker", "broker log"]),
        ("parked fetch, fast path", ["servers wire", "servers broker", "broker log"]),
        ("parked fetch, ordinary path", ["servers wire", "servers api", "api broker", "broker log"]),
    ],
)
def test_a_request_goes_through_its_layers(followed: Followed, scenario: str, steps: list[str]) -> None:
    taken = {f"{package(caller)} {package(callee)}" for caller, callee in followed[scenario] if caller}

    assert [step for step in steps if step not in taken] == []


PAGE = ROOT / "docs/internals/hot-path.md"
PATHS = ("fast", "ordinary")
DESCRIBED = {"**A produced batch**": "produce", "**A fetch**": "parked fetch"}
"""What the page describes, and the scenario that is followed for it."""


def steps_on_page(subject: str, path: str) -> list[str]:
    """The functions of a path, in the order of the page's table."""
    table = PAGE.read_text().split(subject, 1)[1].split("\n\n", 2)[1]
    steps: list[str] = []
    for line in table.splitlines()[2:]:
        fast, ordinary = line.strip("| ").split(" | ")[1:]
        cell = fast if path == "fast" or ordinary == "the same" else ordinary
        steps.append("qanat." + cell.strip("`").replace("/", "."))
    return steps


@pytest.mark.parametrize("subject", DESCRIBED)
@pytest.mark.parametrize("path", PATHS)
def test_the_page_has_the_steps_in_the_order_of_the_calls(followed: Followed, subject: str, path: str) -> None:
    called = list(dict.fromkeys(callee for _, callee in followed[f"{DESCRIBED[subject]}, {path} path"]))
    steps = steps_on_page(subject, path)

    assert len(steps) >= 10
    assert [step for step in steps if step not in called] == []
    assert steps == sorted(steps, key=called.index)


@pytest.mark.parametrize("request_kind", ["produce", "fetch", "parked fetch"])
def test_the_fast_path_does_not_call_the_handler(followed: Followed, request_kind: str) -> None:
    def handlers(path: str) -> set[str]:
        calls = followed[f"{request_kind}, {path} path"]
        return {callee for caller, callee in calls if package(callee) == "api" and callee.endswith(":handle")}

    assert handlers("fast") == set()
    assert handlers("ordinary") != set()


def test_a_request_enters_by_its_server(followed: Followed) -> None:
    first = {next(callee for caller, callee in calls if not caller) for calls in followed.values()}

    assert {package(callee) for callee in first} == {"servers"}
