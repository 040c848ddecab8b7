"""The comparison with other systems: its figures, missing ones, and systems that cannot be compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench.peers import __main__ as command
from bench.peers import page, systems, workloads
from bench.peers.driving import Arrivals, Asked, Found, Mode, main, paced
from bench.peers.launching import Launch, launched
from bench.peers.report import Line, Result, Table, as_json
from bench.peers.rounds import lines_of
from bench.workloads import Sample
from tools.servers import ServerFailedError

RATES = Line("sync", "publish", "messages/s", {"Qanat": [10.0, 20.0, 60.0], "Redis Streams": [20.0, 20.0, 20.0]})


def test_a_cell_tells_the_median_the_spread_and_the_ratio_within_rounds() -> None:
    assert RATES.cell("Qanat") == "20.0 (10.0 to 60.0)"
    assert RATES.cell("Redis Streams") == "20.0 (20.0 to 20.0); 1.00×"
    assert RATES.cell("RabbitMQ streams") == "–"


def test_a_system_that_measured_nothing_has_no_ratio() -> None:
    assert Line("sync", "publish", "µs", {"Qanat": [1.0], "Redis Streams": [0.0]}).ratio("Redis Streams") is None


def _result() -> Result:
    table = Table("Durable", [RATES], {"RabbitMQ streams 3.10.8": "no fsync"})
    return Result(
        {"kernel": "Linux"}, {"rounds": "5"}, [table], ["Redpanda is not part of this run:\nno redpanda here"]
    )


def test_the_page_names_everybody_who_is_missing() -> None:
    text = page.as_markdown(_result())

    assert "| publish | messages/s | 20.0 (10.0 to 60.0) | 20.0 (20.0 to 20.0); 1.00× |" in text
    assert "RabbitMQ streams 3.10.8 is not in this table: no fsync." in text
    assert "- Redpanda is not part of this run: no redpanda here" in text
    assert "bounded by the client" in text


def test_the_same_for_programs() -> None:
    report = json.loads(as_json(_result()))

    figure = report["tables"][0]["figures"][0]["systems"]
    assert figure["Redis Streams"] == {
        "median": 20.0, "lowest": 20.0, "highest": 20.0, "rounds": [20.0, 20.0, 20.0], "qanat_to_it": 1.0,
    }  # fmt: skip
    assert report["tables"][0]["left_out"] == {"RabbitMQ streams 3.10.8": "no fsync"}


def test_figures_come_from_samples() -> None:
    sample = Sample({"seconds": 2.0, "count": 1_000}, broker_cpu_seconds=0.01)

    rate, cpu = lines_of(workloads.WORKLOADS[0], {"Qanat": [sample]})

    assert (rate.unit, rate.values) == ("messages/s", {"Qanat": [500.0]})
    assert cpu.unit == "µs"
    assert cpu.values["Qanat"] == pytest.approx([10.0])


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("nats-server: v2.9.10", "2.9.10"),
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "7.0.15"),
        ("what?", ""),
    ],
)
def test_versions_are_read(said: str, version: str) -> None:
    assert systems.version_in(said) == version


def test_who_cannot_sync_has_no_place_in_the_durable_table() -> None:
    assert "has no `sync_interval`" in systems.NATS.why_not(True, "2.9.10")
    assert systems.NATS.why_not(True, "2.10.27") == ""
    assert systems.NATS.why_not(False, "2.9.10") == ""
    assert "without fsync" in systems.RABBITMQ.why_not(True, "3.10.8")
    assert systems.REDIS.why_not(True, "7.0.15") == ""


def test_a_program_that_is_not_here_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "located", lambda program: None)

    present, notes = systems.found([systems.NATS])

    assert present == []
    assert notes == ["NATS JetStream is not part of this run: no nats-server here; apt-get install nats-server"]


@pytest.mark.parametrize(
    ("is_durable", "expected"), [(True, "sync_interval: always"), (False, "")], ids=["durable", "not durable"]
)
def test_nats_syncs_where_it_must(tmp_path: Path, is_durable: bool, expected: str) -> None:
    systems.NATS.prepare(is_durable, "nats-server", tmp_path, 4222)

    lines = [line.strip() for line in (tmp_path / "nats.conf").read_text().splitlines()]
    assert lines[4] == expected


@pytest.mark.parametrize(("is_durable", "expected"), [(True, "always"), (False, "no")])
def test_redis_syncs_where_it_must(tmp_path: Path, is_durable: bool, expected: str) -> None:
    words = systems.REDIS.prepare(is_durable, "redis-server", tmp_path, 6379).command

    assert words[words.index("--appendfsync") + 1] == expected


@pytest.mark.parametrize(
    ("script", "reason"), [("exit 3", "code 3: it wrote nothing"), ("echo no licence; exit 1", "code 1: no licence")]
)
def test_a_server_that_does_not_start_says_why(tmp_path: Path, script: str, reason: str) -> None:
    launch = Launch(["sh", "-c", script], b"PING\r\n")

    with pytest.raises(ServerFailedError, match=reason), launched(tmp_path / "server", lambda folder, port: launch):
        pytest.fail("it was taken for started")


def test_latency_runs_from_the_moment_at_which_a_message_was_meant_to_go() -> None:
    sent: list[bytes] = []
    sender = paced(Asked("127.0.0.1:1", "t", 100, 20, 1_000_000), sent.append)
    sender.start()
    sender.join()
    arrivals = Arrivals(20)
    for message in sent:
        assert not arrivals.is_complete
        arrivals.saw(message)

    found = arrivals.found()
    assert arrivals.is_complete
    assert [len(message) for message in sent] == [100] * 20
    assert found["count"] == 20
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_a_driver_makes_its_stream_and_removes_it(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[str, dict[str, str]]] = []

    def noting(name: str, found: Found) -> Mode:
        def mode(asked: Asked) -> Found:
            calls.append((name, dict(asked.settings)))
            return found

        return mode

    modes = {"create": noting("create", {}), "sync": noting("sync", {"count": 1}), "delete": noting("delete", {})}
    arguments = ["new-sync", "127.0.0.1:1", "t", "100", "1", "0", "acks=all", "topic.flush.messages=1"]

    assert main((), modes, arguments) == 0
    assert calls == [("create", {"flush.messages": "1"}), ("sync", {"acks": "all"}), ("delete", {"acks": "all"})]
    assert json.loads(capsys.readouterr().out) == {"count": 1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--rounds", "4"), "4 rounds are no comparison: take at least 5"),
        (("--only", "fly"), "there is no workload fly; choose among produce-100"),
        (("--systems", "pulsar"), "there is no system pulsar; choose among qanat"),
    ],
)
def test_what_would_say_nothing_is_refused(
    arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == command.EXIT_REFUSED
    assert re.search(reason, capsys.readouterr().err)
