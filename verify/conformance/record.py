"""The recorder: holds every conversation with Apache Kafka and records the answers.

    python -m verify.conformance.record [NAME ...]

Needs Java and Kafka's jars (`tools/kafka_jars.py`); the tests need neither.
"""

from __future__ import annotations

import sys

from tools.kafka_jars import JarsUnavailableError, have_jars

from verify.conformance import brokers, script, table
from verify.conformance.play import Play


def record(names: list[str]) -> None:
    conversations = script.load()
    for old in table.RECORDED.glob("*.jsonl"):
        if old.stem not in conversations:
            old.unlink()
    with brokers.kafka(have_jars()) as address:
        beginning = Play(address, "warm-up")
        script.make_group(beginning)
        script.await_producer_ids(beginning)
        beginning.close()
        for name in names or list(conversations):
            play = Play(address, name)
            script.hold(play)
            table.write(name, play.steps)
            print(f"{name}: {len(play.steps)} steps", flush=True)


def main() -> int:
    try:
        record(sys.argv[1:])
    except JarsUnavailableError as error:
        print(f"record: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
