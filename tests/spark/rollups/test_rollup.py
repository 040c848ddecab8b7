"""Measurements rolled up without Spark: the windows equal a plain computation, however the input is cut."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from demo.fleet import MINUTE_MS, Sent, Truth, measure
from tests.spark.pipelines.plain import SIZES, Window, closed, expected
from tests.spark.rollups.fleet_batches import DELAY_MS, Rollup, cut, stored

from qanat.model.dead_letters import parse_letter

START_MS = 1_750_003_200_000
QUANTILES = ("p50", "p95", "p99")


def by_window(rollups: list[dict[str, Any]]) -> dict[Window, dict[str, float]]:
    found = {}
    for record in rollups:
        row = json.loads(record["value"])
        window = (row.pop("metric"), row.pop("source"), row.pop("window"), row.pop("start"))
        assert window not in found, "each window comes out once"
        assert row.pop("end") == round(record["timestamp"].timestamp() * 1000) == window[3] + SIZES[window[2]]
        assert record["key"] == "/".join(window[:3]).encode()
        found[window] = row
    return found


@pytest.mark.parametrize(("seed", "most", "error"), [(1, 2000, 0.0), (2, 400, 0.01), (3, 50_000, 0.001)])
def test_windows_equal_a_plain_computation(seed: int, most: int, error: float) -> None:
    records = stored(measure(START_MS, 12, Truth(), seed=seed), partitions=3)
    wanted = expected(records)
    rollup = Rollup(error)
    for micro_batch in cut(records, Random(seed), most):
        rollup.take(micro_batch)

    rolled, found = closed(wanted.windows, max(one.timestamp for one in records) - DELAY_MS), by_window(rollup.rollups)
    assert found.keys() == rolled.keys()
    for window, values in rolled.items():
        assert found[window] == pytest.approx(values, rel=max(error, 1e-9)), window
        plain = {name: value for name, value in values.items() if name not in QUANTILES}
        assert {name: found[window][name] for name in plain} == pytest.approx(plain, rel=1e-9), window
    assert rollup.duplicates == wanted.duplicates > 5
    assert rollup.late == 0
    assert len(rollup.dead) == len(wanted.dead)
    reasons = {
        (letter.origin.partition, letter.origin.offset): letter.origin.message.split()[0]
        for letter in (parse_letter([(one["key"], one["value"]) for one in row["headers"]]) for row in rollup.dead)
        if letter is not None
    }
    assert reasons == wanted.dead


def test_a_partition_that_is_read_far_ahead_of_the_others_closes_no_windows() -> None:
    """Hours in one partition, a few records in another: all of them are in the first micro-batch."""
    slow = [one(f"slow-{minute}", minute, key=b"\0") for minute in range(300)]
    fast = [one(f"fast-{minute}", minute, key=b"\1") for minute in range(0, 300, 75)]
    rollup = Rollup(0.0)
    for micro_batch in cut(stored([*slow, *fast], 2), Random(5), 60):
        rollup.take(micro_batch)
    assert rollup.late == 0
    assert sum(json.loads(row["value"])["count"] for row in rollup.rollups if row["key"].endswith(b"/1m")) > 280


def test_measurements_of_closed_windows_are_counted_and_dropped() -> None:
    rollup = Rollup(0.0)
    rollup.take({0: stored([one("now", 120)], 1)})
    rollup.take({0: stored([one("behind", 0), one("late as well", 60), one("on time", 110)], 1)})
    assert rollup.late == 2


def test_the_same_measurement_counts_once_while_its_minute_is_open_and_another_one_counts() -> None:
    rollup = Rollup(0.0)
    twice = [one("a", 1), one("a", 1), one("a", 2), one("a", 1, source="web-02"), one("b", 1)]
    rollup.take({0: stored(twice, 1)})
    rollup.take({0: stored(twice, 1)})
    rollup.take({0: stored([one("end", 200)], 1)})
    counts = {window: row["count"] for window, row in by_window(rollup.rollups).items()}
    minute = START_MS + MINUTE_MS
    assert counts["odd", "web-01", "1m", minute] == 2
    assert counts["odd", "web-01", "1m", minute + MINUTE_MS] == 1
    assert counts["odd", "web-02", "1m", minute] == 1
    assert counts["odd", "web-01", "5m", START_MS] == counts["odd", "web-01", "1h", START_MS] == 3
    assert rollup.duplicates == 6


def test_state_is_bounded_by_time() -> None:
    """Ten times as many measurements over ten times as many minutes leave no more behind."""
    sizes = []
    for minutes in (90, 900):
        rollup = Rollup(0.01)
        records = [one(f"{minute}-{number}", minute) for minute in range(minutes) for number in range(3)]
        for micro_batch in cut(stored(records, 1), Random(1), 500):
            rollup.take(micro_batch)
        sizes.append(rollup.state_bytes)
    assert sizes[1] < 1.2 * sizes[0]


def one(name: str, minute: int, source: str = "web-01", key: bytes = b"") -> Sent:
    at = START_MS + minute * MINUTE_MS
    said = {"id": name, "metric": "odd", "source": source, "time": at, "value": 1.0}
    return Sent(key or name.encode(), json.dumps(said).encode(), at)
