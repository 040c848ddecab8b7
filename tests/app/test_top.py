"""`qanat top`: one picture for scripts, a screen that fits any terminal, and a clean end."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest
from msgspec.structs import replace
from tests.app.conftest import Run
from tests.app.processes import QANAT, clean_environment
from tests.diagnosis.readings import HEALTHY, START, cluster

from qanat.app.diagnosis.activity import activity_of
from qanat.app.diagnosis.top_screen import screen_of
from qanat.diagnosis.readings import GroupReading, PartitionReading

BEFORE = cluster(*[START] * 3)
ACTIVITY = activity_of(BEFORE, cluster(*[HEALTHY] * 3), [1, 2, 3, 4])


def test_rates_are_differences_of_two_readings() -> None:
    assert (ACTIVITY.seconds, ACTIVITY.requests_per_s, ACTIVITY.silent) == (10.0, 900.0, [4])
    assert (ACTIVITY.brokers[0].produce_ms, ACTIVITY.brokers[0].partitions_written) == (2.0, 6)
    (orders,) = ACTIVITY.topics
    assert (orders.topic, orders.records_per_s) == ("orders", 5400.0)


@pytest.mark.parametrize("width", [1, 10, 20, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 24, 100])
def test_the_picture_fits_any_terminal(width: int, height: int) -> None:
    lines = screen_of(ACTIVITY, "12:00:00", width, height)

    assert 0 < len(lines) <= height
    assert max(map(len, lines)) <= width


def test_a_narrow_terminal_keeps_names_and_drops_the_last_columns() -> None:
    lines = screen_of(ACTIVITY, "12:00:00", 40, 100)

    assert any(line.startswith("orders") for line in lines)
    assert "late" in "".join(screen_of(ACTIVITY, "12:00:00", 80, 100))
    assert "late" not in "".join(lines)


def test_many_topics_leave_room_for_brokers_and_groups() -> None:
    rows = [PartitionReading(f"topic-{number}", 0, 1, 1000, 1) for number in range(100)]
    groups = [GroupReading(f"group-{number}", "ok", 1, 1.0) for number in range(100)]
    before = cluster(replace(START, groups=groups))
    activity = activity_of(before, cluster(replace(HEALTHY, partitions=rows, groups=groups)), [1])
    lines = screen_of(activity, "12:00:00", 80, 24)

    assert len(lines) == 24
    assert [sum(one.startswith(name) for one in lines) >= 3 for name in ("topic-", "group-")] == [True, True]


def test_names_of_clients_move_no_cursor() -> None:
    hostile = replace(HEALTHY, groups=[GroupReading("\x1b[2Jgone\n", "ok", 1, 1.0)])
    before = cluster(replace(START, groups=hostile.groups))
    text = "".join(screen_of(activity_of(before, cluster(hostile), [1]), "12:00:00", 120, 100))

    assert "\x1b" not in text
    assert "\\x1b[2Jgone" in text


def test_one_picture_for_scripts(run: Run) -> None:
    run("topic", "create", "topped", "-p", "1")
    shown = run("top", "--once", "--every", "0.5", "-o", "json")

    found = json.loads(shown.stdout)
    assert (shown.returncode, len(found["brokers"]), found["silent"]) == (0, 1, [])
    assert run("top", "--once", "--every", "0.5").stdout.startswith("qanat top ")
    assert "from 0.5 to 3600" in run("top", "--every", "0.1").stderr


def test_it_leaves_the_terminal_as_it_was(broker_address: str) -> None:
    ours, theirs = pty.openpty()
    line = [*QANAT, "top", "--every", "0.5", "-b", broker_address]
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment()) as process:
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + 60
        while b"requests/s" not in shown and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while select.select([ours], [], [], 5)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:
                break  # The terminal closes with the process.
        process.wait(30)
    os.close(ours)

    assert shown.index(b"\x1b[?1049h") < shown.index(b"requests/s") < shown.index(b"\x1b[?1049l")
    assert b"Traceback" not in shown
    assert process.returncode in (0, 130)
