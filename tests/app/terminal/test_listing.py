"""Listings: on a terminal of 80 columns, watched, and in every form that programs read."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from tests.app.conftest import Run
from tests.app.consumers import on_terminal, wait_until
from tests.app.processes import QANAT, clean_environment, qanat

from qanat.app.terminal.listing import fitting

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def on_paper(*arguments: str) -> list[str]:
    return _COLOURS.sub("", on_terminal(*arguments)).splitlines()


def test_every_form_says_the_same(run: Run) -> None:
    run("topic", "create", "l-forms", "-p", "2")
    printed = {
        form: run("topic", "describe", "l-forms", "-o", form).stdout for form in ("json", "jsonl", "yaml", "csv")
    }
    rows = json.loads(printed["json"])

    assert [row["partition"] for row in rows] == [0, 1]
    assert [json.loads(line) for line in printed["jsonl"].splitlines()] == rows
    assert yaml.safe_load(printed["yaml"]) == rows
    as_text = [{key: str(value) for key, value in row.items()} for row in rows]
    assert list(csv.DictReader(io.StringIO(printed["csv"]))) == as_text


def test_tables_fit_a_terminal_of_80_columns(broker_address: str) -> None:
    topic, group = "l-" + "long" * 10, "l-group-" + "x" * 20
    target = ("-b", broker_address)
    qanat("topic", "create", topic, "-p", "2", *target)
    qanat("produce", topic, *target, given="1\n2\n3\n")
    qanat("consume", topic, "-n", "1", "--group", group, *target)

    described = on_paper("topic", "describe", topic, *target)
    assert described[0] == f"{topic}: 2 partitions, 3 records"
    assert " ".join(described[1].split()) == "partition leader replicas in sync first offset end offset records"
    lag = on_paper("group", "describe", group, *target)
    assert lag[0] == f"{group}: Empty, 0 members"
    assert lag[1].split()[:6] == ["topic", "partition", "committed", "end", "lag", "time"]
    listed = on_paper("topic", "list", *target)
    assert max(map(len, described + lag + listed)) <= 80
    assert any(line.startswith(topic) for line in listed)


def test_what_can_be_spared_goes_first_and_in_order() -> None:
    cells = {"topic": ["x" * 30], "partition": ["1"], "host": ["h" * 20], "member": ["m" * 20]}

    assert fitting(cells, ("host", "member"), 100) == ["topic", "partition", "host", "member"]
    assert fitting(cells, ("host", "member"), 70) == ["topic", "partition", "member"]
    assert fitting(cells, ("host", "member"), 10) == ["topic", "partition"]


def test_the_time_lag_is_the_age_of_the_first_unread_record(run: Run) -> None:
    run("topic", "create", "l-age", "-p", "1")
    old_ms = time.time_ns() // 1_000_000 - 7_200_000
    lines = [json.dumps({"value": "v", "timestamp": old_ms + number * 3_600_000}) for number in range(2)]
    run("produce", "l-age", "-J", given="\n".join(lines) + "\n")

    def lag_ms() -> list[int]:
        rows = json.loads(run("group", "describe", "l-aged", "-o", "json").stdout)
        return [row["time_lag_ms"] for row in rows]

    run("consume", "l-age", "-g", "l-aged", "-n", "1")
    behind, shown = lag_ms(), run("group", "describe", "l-aged").stdout
    run("consume", "l-age", "-g", "l-aged", "-n", "1")

    # By partition, by topic, in all.
    assert [round(age / 3_600_000) for age in behind] == [1, 1, 1]
    assert re.search(r" 1 +1h( \d+[ms])?\b", shown)
    assert lag_ms() == [0, 0, 0]


@pytest.mark.parametrize("command", [("topic", "list"), ("group", "list"), ("topic", "describe", "l-watched")])
def test_a_listing_is_watched_until_it_is_ended(broker_address: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    qanat("topic", "create", "l-watched", "--if-not-exists", "-b", broker_address)
    printed = tmp_path / "printed"
    arguments = [*command, "--watch", "--every", "0.1", "-o", "json", "-b", broker_address]
    with printed.open("wb") as stdout:
        process = subprocess.Popen([*QANAT, *arguments], stdout=stdout, stderr=subprocess.PIPE, env=clean_environment())
    try:
        wait_until(lambda: len(re.findall(r"^\[", printed.read_text(), re.MULTILINE)) >= 3, "three pictures")
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, complaints) == (130, b"")


def test_a_pause_without_meaning_is_refused() -> None:
    assert qanat("topic", "list", "--watch", "--every", "nan").stderr == (
        "qanat: --every nan: write seconds, from 0.1 to 86400\n"
    )
