"""`python -m verify.connector`: run all cases and compare; exits with 1 where an answer differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.kafka_jars import JarsUnavailableError, have_jars
from tools.servers import kafka, qanat
from tools.spark_connector import Connector, ConnectorUnavailableError, have_connector

from qanat.spark.session import require_java
from verify.connector.cases import BATCHES, DELIBERATE, REFUSED, STREAMS, WRITES, placed
from verify.connector.data import WRITTEN, fill

Answers = dict[str, Any]
FORMATS = ("kafka", "qanat")
_LIMIT_S = 1800.0
_WRITTEN_RECORDS = 1000


def main() -> int:
    try:
        connector = have_connector()
    except ConnectorUnavailableError as fault:
        print(f"skipped: Spark's Kafka connector is not available here: {fault}")
        return 0
    try:
        servers = [kafka(have_jars()), qanat()]
    except JarsUnavailableError as fault:
        print(f"without Apache Kafka, whose jars are not available here: {fault}")
        servers = [qanat()]
    with TemporaryDirectory(prefix="connector-") as scratch, ExitStack() as stack:
        answers = {}
        for server in servers:
            folder = Path(scratch) / server.name.replace(" ", "-")
            address = stack.enter_context(server.running(folder)).address
            fill(address, [topic for name in FORMATS for topic in _own_topics(name).values()])
            for name in FORMATS:
                side = f"{'connector' if name == 'kafka' else 'data source'} on {server}"
                print(f"running the {side} ...", flush=True)
                try:
                    answers[side] = _run(name, address, folder, connector)
                except FailedRunError as fault:
                    print(f"the {side} did not answer: {fault}")
                    return 1
    return _compare(answers)


class FailedRunError(Exception):
    """A format's program failed; the message says why."""


def _own_topics(name: str) -> dict[str, str]:
    """The topic of each write, by case: each format has its own."""
    return {case: f"write-{name}-{number}" for number, case in enumerate(WRITES)}


def _run(name: str, address: str, folder: Path, connector: Connector) -> Answers:
    cases: dict[str, Any] = {"batches": BATCHES, "streams": STREAMS, "refused": REFUSED}
    cases["writes"] = {case: placed(WRITES[case], topic) for case, topic in _own_topics(name).items()}
    if name == "kafka":
        cases["written"] = {WRITTEN: _WRITTEN_RECORDS}
    cases_file, answers_file = folder / f"{name}-cases.json", folder / f"{name}-answers.json"
    cases_file.write_text(json.dumps(cases))
    require_java()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    python = sys.executable
    command = [str(Path(__file__).with_name("spark_job.py")), name, address]
    command += [str(cases_file), str(answers_file), str(folder / name)]
    if name == "kafka":
        python = str(connector.python)
        command.append(connector.class_path)
        environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            [python, *command], capture_output=True, text=True, timeout=_LIMIT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise FailedRunError(f"not within {_LIMIT_S / 60:.0f} minutes; is the machine busy?") from None
    if done.returncode:
        raise FailedRunError(done.stderr[-3000:])
    found: Answers = json.loads(answers_file.read_text())
    return found


def _compare(answers: dict[str, Answers]) -> int:
    """Compare every answer with the first, which is right."""
    (right_name, right), *others = answers.items()
    print(f"\nright is the {right_name}, Spark {right['spark']}")
    differing = 0
    for name, found in others:
        wrong = [case for case in found if case != "spark" and not _is_same(case, right.get(case), found[case])]
        print(f"{name}, Spark {found['spark']}: {len(found) - 1 - len(wrong)} answers alike, {len(wrong)} differ")
        for case in wrong:
            if case in DELIBERATE and name.startswith("data source"):
                print(f"  {case}: on purpose; {DELIBERATE[case]}")
                differing -= 1
                continue
            print(f"  {case}: {_shown(right.get(case))}\n    here: {_shown(found[case])}")
        differing += len(wrong)
    return 1 if differing else 0


def _is_same(case: str, right: Any, found: Any) -> bool:
    if "broker's time" in case:
        # The brokers' timestamps differ; everything else must agree.
        return [row[:5] + row[6:] for row in right["rows"]] == [row[:5] + row[6:] for row in found["rows"]]
    if isinstance(right, dict) and isinstance(found, dict) and "fault" in right:
        return "fault" in found
    return bool(right == found)


def _shown(answer: Any) -> str:
    text = json.dumps(answer)
    return text if len(text) <= 300 else text[:297] + "..."


if __name__ == "__main__":
    sys.exit(main())
