"""Kafka's own classes read every internal record that we write, and write the same bytes again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.interop.conftest import kafka_jars
from tests.wire.kafka.forgeries import Forge
from tools.codec import record_source
from tools.codec.schema import snake

__all__ = ["kafka_jars"]

JUDGE = Path(__file__).with_name("RecordJudge.java")
# Fields that a forged message has at zero, which for some is the default and then not sent.
SET = {"topic_id": bytes(range(16)), "metadata_hash": 77, "next_producer_epoch": 3, "client_transaction_version": 2}


def written() -> Iterator[str]:
    """Each record in each version, with one, two and three elements in every array."""
    for name, module in record_source.record_modules().items():
        codec = import_module(f"qanat.wire.kafka.messages.{name}")
        for message in record_source.messages(module):
            noun = snake(message.name)
            for version, layout in message.layouts.items():
                for fullness in (1, 2, 3):
                    forged = Forge(fullness)
                    forged.struct(layout)
                    value = getattr(codec, f"read_{noun}")(memoryview(forged.data), version)
                    for field in SET.keys() & set(value.__struct_fields__):
                        setattr(value, field, SET[field])
                    data = b"".join(getattr(codec, f"write_{noun}")(value, version))
                    yield f"{message.name} {version} {data.hex()}"


def test_kafka_reads_and_writes_every_internal_record_as_we_do(kafka_jars: Path, tmp_path: Path) -> None:
    lines = list(written())
    records = tmp_path / "records.txt"
    records.write_text("\n".join(lines))

    command = ["java", "-cp", f"{kafka_jars}/*", str(JUDGE), str(records)]
    judged = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert judged.stdout.split("\n")[:-1] == [f"agreed: {len(lines)}"], judged.stderr
