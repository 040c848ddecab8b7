"""Kafka's jars are fetched once, within a limit; what is missing is said in one sentence. A script plays Maven."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from tools.kafka_jars import JarsUnavailableError, have_jars
from tools.toolchains import registries

pytestmark = pytest.mark.long

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
JAVA_8 = "echo 'openjdk version \"1.8.0_402\"' >&2"
BRINGS_JARS = """
for argument; do case "$argument" in -DoutputDirectory=*) folder="${argument#*=}";; esac; done
mkdir -p "$folder"
: > "$folder/kafka_2.13-4.1.0.jar"
echo run >> "$(dirname "$0")/runs"
"""
FAILS = """
echo run >> "$(dirname "$0")/runs"
sleep 0.3
echo '[ERROR] Could not transfer artifact: unknown host'
echo '[ERROR] more of the same'
exit 1
"""


class Machine:
    """Programs that this machine is made to have, and no others but the shell's."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.has_registry = True
        self.jars = folder / "cache" / "kafka-4.1.0"
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.delenv("QANAT_OFFLINE", raising=False)
        monkeypatch.setattr(registries, "answers", lambda url: self.has_registry)

    def install(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\nPATH={os.defpath}:/bin:/usr/bin\n{script}\n")
        path.chmod(0o755)

    def runs(self) -> int:
        """How often Maven was started."""
        return len((self.programs / "runs").read_text().splitlines())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def refusal(machine: Machine, limit_seconds: float = 10) -> str:
    with pytest.raises(JarsUnavailableError) as caught:
        have_jars(machine.jars, limit_seconds)
    assert not machine.jars.exists()
    return str(caught.value)


def test_jars_are_fetched_once(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", BRINGS_JARS)

    assert have_jars(machine.jars) == have_jars(machine.jars) == machine.jars
    assert machine.runs() == 1
    assert [path.name for path in machine.jars.iterdir()] == ["kafka_2.13-4.1.0.jar"]


def test_jars_that_are_there_need_neither_maven_nor_network(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("java", JAVA_17)
    machine.jars.mkdir(parents=True)
    monkeypatch.setenv("QANAT_OFFLINE", "1")

    assert have_jars(machine.jars) == machine.jars


def test_without_java_the_reason_is_java(machine: Machine) -> None:
    assert refusal(machine) == "there is no Java on this machine; Kafka 4.1.0 needs 17 or newer"


def test_an_old_java_is_named(machine: Machine) -> None:
    machine.install("java", JAVA_8)

    assert refusal(machine) == "Java is version 8; Kafka 4.1.0 needs 17 or newer"


def test_without_maven_the_reason_is_maven(machine: Machine) -> None:
    machine.install("java", JAVA_17)

    assert "no Maven (mvn)" in refusal(machine)


def test_offline_nothing_is_fetched(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", BRINGS_JARS)
    monkeypatch.setenv("QANAT_OFFLINE", "1")

    assert "QANAT_OFFLINE=1" in refusal(machine)


def test_the_reason_of_a_failure_is_mavens_first_complaint(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", FAILS)

    assert refusal(machine) == "Maven cannot fetch Kafka's jars: Could not transfer artifact: unknown host"


def test_a_fetch_that_takes_too_long_is_given_up(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", "sleep 600 & wait")
    began = time.monotonic()

    assert "within 1 seconds" in refusal(machine, limit_seconds=1)
    assert time.monotonic() - began < 60
    assert [path.name for path in machine.jars.parent.iterdir() if path.is_dir()] == []


def test_maven_is_not_started_where_its_repository_does_not_answer(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", BRINGS_JARS)
    machine.has_registry = False

    assert "does not answer within 3 seconds" in refusal(machine)
    assert not (machine.programs / "runs").exists()


def test_whoever_waits_for_a_failing_fetch_shares_its_failure(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", FAILS)
    reasons: list[str] = []
    threads = [threading.Thread(target=lambda: reasons.append(refusal(machine))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(reasons)) == 1
    assert len(reasons) == 3
    assert machine.runs() == 1
    refusal(machine)
    assert machine.runs() == 2


def test_a_failure_since_a_given_time_is_shared_as_well(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", FAILS)
    began_at = time.time() - 1
    refusal(machine)

    with pytest.raises(JarsUnavailableError, match="unknown host"):
        have_jars(machine.jars, asked_at=began_at)
    assert machine.runs() == 1
