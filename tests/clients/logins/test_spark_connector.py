"""Spark's own Kafka connector logs in by every mechanism, and says why where it is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.clients.logins.login import MECHANISMS
from tests.clients.logins.matrix import DENIED, SPARK, refused
from tests.clients.logins.programs import allowed_urls, java_settings
from tests.clients.logins.secured_broker import PREFIX, Secured

pytestmark = pytest.mark.long

VALUES = ["one", "two", "three"]
_PROGRAM = Path(__file__).with_name("spark_job.py")
_LIMIT_S = 600
Answers = dict[tuple[str, str], dict[str, Any]]
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def topic_of(mechanism: str, kind: str) -> str:
    return f"{PREFIX}spark-{mechanism.lower()}-{kind}"


@pytest.fixture(scope="module")
def answers(broker_with_logins: Secured, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """One Spark session for all logins: by mechanism and kind."""
    from tools.spark_connector import ConnectorUnavailableError, have_later_jars

    try:
        jars = have_later_jars()
    except ConnectorUnavailableError as reason:
        pytest.skip(f"{SPARK} is not tried: {reason}")
    folder: Path = tmp_path_factory.mktemp("spark-connector")
    logins = {
        (mechanism, kind): getattr(broker_with_logins, kind)(mechanism)
        for mechanism in MECHANISMS
        for kind in ("right", "wrong", "without_rules")
    }
    cases = []
    for where, login in logins.items():
        broker_with_logins.broker.create_topic(topic_of(*where))
        cases.append({"settings": java_settings(login), "topic": topic_of(*where), "values": VALUES})
    (folder / "cases").write_text(json.dumps(cases))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environment.pop("PYTHONPATH", None)  # The job has nothing of this checkout.
    words = [",".join(map(str, jars)), allowed_urls(broker_with_logins.token_url), folder / "cases", folder / "answers"]
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(logins, json.loads((folder / "answers").read_text()), strict=True))


def stored(secured: Secured, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in secured.broker.records(topic)]


@every_mechanism
def test_spark_logs_in_and_writes_and_reads(broker_with_logins: Secured, answers: Answers, mechanism: str) -> None:
    assert answers[mechanism, "right"] == {"read": VALUES}
    assert stored(broker_with_logins, topic_of(mechanism, "right")) == VALUES


@every_mechanism
@pytest.mark.parametrize("act", ["write", "error"])
def test_spark_says_that_its_credential_was_refused(
    broker_with_logins: Secured, answers: Answers, mechanism: str, act: str
) -> None:
    assert re.search(refused(SPARK, mechanism), answers[mechanism, "wrong"][act])
    assert stored(broker_with_logins, topic_of(mechanism, "wrong")) == []


@every_mechanism
@pytest.mark.parametrize("act", ["write", "error"])
def test_spark_says_that_its_identity_lacks_a_right(
    broker_with_logins: Secured, answers: Answers, mechanism: str, act: str
) -> None:
    assert re.search(DENIED[SPARK], answers[mechanism, "without_rules"][act])
    assert stored(broker_with_logins, topic_of(mechanism, "without_rules")) == []
