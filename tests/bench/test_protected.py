"""Protected brokers under almost no load; Kafka is not needed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench.clients import make_client, python_client
from bench.protected import __main__ as command
from bench.protected import guesses, rules, servers, workloads
from bench.protected.guessing import guess
from bench.report import page, part_results, parts, sections
from bench.report.part_results import PartResult
from bench.sides import BrokerSide

from bench import sides
from qanat.app.bench import report as figures
from qanat.app.bench.figures import Limit, Required, row
from qanat.wire.kafka.headers import read_request_header

KAFKA = "Apache Kafka 4.1.0"


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "NEEDED_BYTES", 10**6)
    monkeypatch.setattr(rules, "RULES", 50)
    monkeypatch.setattr(rules, "WORKLOADS", tuple(replace(one, count=400) for one in rules.WORKLOADS))
    monkeypatch.setattr(guesses, "_COUNT", 200)
    monkeypatch.setattr(sides, "WARM_UP", replace(sides.WARM_UP, count=100))
    monkeypatch.setattr(sides, "PAUSE_SECONDS", 0.0)


@pytest.mark.long
@pytest.mark.usefixtures("_tiny")
def test_rules_and_guesses_are_measured_without_kafka(tmp_path: Path) -> None:
    written, folder = tmp_path / "result.json", tmp_path / "disk"
    folder.mkdir()

    assert command.main(["--only", "rules,guesses", "--dir", str(folder), "--json", str(written)]) == 0

    found = {(one["figure"], one["what"]): one for one in json.loads(written.read_text())["figures"]}
    evaluated = found["guesses", "1,000 login guesses/s from one address: evaluated"]
    sent = found["guesses", "1,000 login guesses/s from one address: sent"]
    assert evaluated["ours"] < 100 < sent["ours"], "few guesses are evaluated"
    assert found["guesses", "1,000 login guesses/s from one address: sent"]["ours"] > 100
    assert found["rules-single", "50 rules: single-record requests, pipelined"]["ratio"] > 0
    assert list(folder.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["C", "Python"])
def test_either_client_writes_and_reads_over_many_protected_connections(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "PAUSE_SECONDS", 0.0)
    kept = servers.Secrets(tmp_path)
    client = make_client(tmp_path) if kind == "C" else python_client()
    with servers.qanat(kept).running(tmp_path / "broker") as running:
        side = BrokerSide(client.protected(kept.client()), running)
        for workload in (one for one in workloads.WORKLOADS if "driver.clients" in one.client):
            few = replace(workload, count=10_000)
            side.prepare(few)
            assert side.sample(few).found["count"] == few.count, few.name
            side.clear(few)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--rounds", "4"), "take at least 5"),
        (("--only", "fly"), "there is no workload fly; choose among produce-100,"),
    ],
)
def test_what_would_say_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert command.main(arguments) == 2
    assert reason in capsys.readouterr().err


def test_a_guess_is_a_handshake_and_one_password() -> None:
    sent, at, keys = guess(7), 0, []
    while at < len(sent):
        size = int.from_bytes(sent[at : at + 4])
        keys.append(read_request_header(memoryview(sent)[at + 4 : at + 4 + size]).api_key)
        at += 4 + size

    assert keys == [17, 36]
    assert b"\0user-7\0guess-7" in sent


def test_the_client_has_the_last_of_many_rules() -> None:
    made = rules.many_rules(1_000)

    assert len(made) == 1_000
    assert len({str(one) for one in made}) == 1_000
    assert made[-len(servers.own_rules()) :] == servers.own_rules()


def test_guesses_are_judged_by_the_slowest_quiet_run() -> None:
    attacks = [guesses.Attack(p99, 1_000.0, 5.0) for p99 in (2.0, 3.0, 4.0)]
    alone = [0.1, 0.1, 0.1]
    _, evaluated, slow, _, _ = guesses._rows(alone, [1.0, 1.5, 3.5], attacks)
    *_, slower, _, _ = guesses._rows(alone, [1.0, 1.5, 2.5], attacks)

    assert evaluated.verdict == slow.verdict == "met"
    assert slower.verdict == "NOT met"


def test_the_page_has_a_section_with_both_tables(tmp_path: Path) -> None:
    floor = Required("ratio", ">=", 1.0)
    rows = [
        row("produce-1k", "produce 1 KB", "messages/s", [3.0], Limit([2.0], KAFKA), floor),
        row("guesses", "evaluated", "guesses/s", [5.0], required=Required("ours", "<=", 10.0)),
    ]
    found = json.loads(figures.as_json(figures.Result({}, {}, rows, [], [])))
    part_results.write(tmp_path, PartResult("protected", "now", 1.0, False, "", found))
    text = sections.protected(part_results.read(tmp_path, parts.NAMES))

    beside, alone = text.split("### Rules and guesses")
    assert "| produce-1k | produce 1 KB | 3.00 messages/s | 2.00 messages/s (Apache Kafka 4.1.0) | 1.50 |" in beside
    assert "| guesses | evaluated | 5.00 guesses/s |" in alone
    assert sections.protected({}) == ""
    assert page.as_markdown(page.Report({}, [], []), {})
