"""Every server writes, waits, authorizes and accounts by the same classes; `docs/internals/hot-path.md` names them."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.architecture.followed_calls import ROOT, Call

PAGE = (ROOT / "docs/internals/hot-path.md").read_text()
SOURCES = ROOT / "src/qanat"
PERMISSION = "qanat.api.permissions:Permissions.allow"
APPEND = "qanat.log.partition_log:PartitionLog.note_append"
ACKNOWLEDGEMENT = "qanat.broker.replicas.durable_acknowledgement:DurableAcknowledgement.__init__"
PARKED = "qanat.broker.replicas.parked_fetch:ParkedFetch.__init__"
ANSWERED = "qanat.servers.request_accounting:RequestAccounting.answered"
Followed = dict[str, list[Call]]


def function(cell: str) -> str:
    return "qanat." + cell.strip("`").replace("/", ".")


def rows_on_page() -> dict[str, tuple[str, str]]:
    """What a request appends or waits by, and who hands its answer to the accounting."""
    table = PAGE.split("**Every server**", 1)[1].split("\n\n", 2)[1]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {name: (function(step), function(accounted)) for name, step, accounted in rows}


ROWS = rows_on_page()
WRITES = [name for name, (step, _) in ROWS.items() if step != PARKED]
READS = [name for name, (step, _) in ROWS.items() if step == PARKED]


@pytest.fixture(scope="module")
def followed() -> Followed:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.architecture.followed_servers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return {name: [(caller, callee) for caller, callee in calls] for name, calls in json.loads(ran.stdout).items()}


def called(followed: Followed, name: str) -> set[str]:
    return {callee for _, callee in followed[name]}


def test_the_page_has_every_request_that_is_followed(followed: Followed) -> None:
    assert sorted(ROWS) == sorted(followed)


@pytest.mark.parametrize("name", ROWS)
def test_a_request_takes_the_step_on_the_page(followed: Followed, name: str) -> None:
    step, accounted_by = ROWS[name]

    assert step in called(followed, name)
    assert (accounted_by, ANSWERED) in followed[name]


@pytest.mark.parametrize("name", ROWS)
def test_the_same_permissions_decide(followed: Followed, name: str) -> None:
    assert PERMISSION in called(followed, name)


@pytest.mark.parametrize("name", WRITES)
def test_every_write_is_appended_and_acknowledged_by_the_same(followed: Followed, name: str) -> None:
    assert {APPEND, ACKNOWLEDGEMENT} - called(followed, name) == set()


@pytest.mark.parametrize("name", READS)
def test_every_read_that_waits_is_a_parked_fetch(followed: Followed, name: str) -> None:
    assert PARKED in called(followed, name)
    assert APPEND not in called(followed, name), "only what wakes it is followed of the write"


def test_the_fast_path_of_http_looks_up_no_operation(followed: Followed) -> None:
    ways = [called(followed, f"HTTP produce, {path} path") for path in ("fast", "ordinary")]

    assert ["qanat.servers.http.operations:Routes.find" in way for way in ways] == [False, True]


# What waits by itself

WAITS_FOR_DISK = re.compile(r"\.durable\b|\.when_durable\(|\.append_marker\(|\.append_mirrored\(")
WAITS_FOR_RECORDS = re.compile(r"\.wait_for_more\(")
ACKNOWLEDGED = re.compile(r"\bDurableAcknowledgement\(|\backnowledged\(")
IS_PARKED = re.compile(r"def wait_for_more\(|class ParkedFetch")
OWNERS = ("testing", "log", "client", "broker/replicas/partition.py")
"""What makes the futures and callbacks that others wait for, clients, and what only tests use."""


def test_the_page_names_what_waits_by_itself() -> None:
    named = PAGE.split("**What waits for the disk or for records by itself**", 1)[1].split("\n\n", 2)[1]
    exceptions = {f"{one}.py" for line in named.splitlines() if ": " in line for one in in_front_of_reason(line)}
    found = set()
    for path in SOURCES.rglob("*.py"):
        module, text = path.relative_to(SOURCES).as_posix(), path.read_text()
        if module.startswith(OWNERS):
            continue
        if WAITS_FOR_DISK.search(text) and not ACKNOWLEDGED.search(text):
            found.add(module)
        if WAITS_FOR_RECORDS.search(text) and not IS_PARKED.search(text):
            found.add(module)

    assert found == exceptions


def in_front_of_reason(line: str) -> list[str]:
    return re.findall(r"`([a-z_/]+)`", line.split(": ", 1)[0]) if line.startswith("- ") else []
