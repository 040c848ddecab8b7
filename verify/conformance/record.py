"""The recorder: holds every conversation with Apache Kafka and records the answers.

    python -m verify.conformance.record [NAME ...]

Needs Java and Kafka's jars (`tools/kafka_jars.py`); the tests need neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.kafka_jars import JarsUnavailableError, have_jars, have_later_jars

from verify.conformance import brokers, script, table
from verify.conformance.play import Play


def record(names: list[str]) -> None:
    conversations = script.load()
    for old in table.paths():
        if old.stem not in conversations:
            old.unlink()
    groups: dict[tuple[bool, bool], list[str]] = {}
    for name in names or list(conversations):
        groups.setdefault((name.endswith(table.OF_LATER), name in script.SECURED), []).append(name)
    for (is_later, is_secured), some in groups.items():
        _record(some, have_later_jars() if is_later else have_jars(), is_secured=is_secured)


def _record(names: list[str], jars: Path, *, is_secured: bool) -> None:
    """Hold conversations with one Kafka."""
    with brokers.kafka(jars, is_secured=is_secured) as address:
        beginning = Play(address, "warm-up", is_secured=is_secured)
        script.make_group(beginning)
        script.await_producer_ids(beginning)
        beginning.close()
        for name in names:
            play = script.play_of(address, name)
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
