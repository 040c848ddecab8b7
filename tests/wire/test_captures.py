"""What real producers sent (see `tools/capture_batches.py`), and real consumers of what we send."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.wire.conftest import Wire
from tests.wire.judges import Reading, read_by_kafka_python, read_by_librdkafka
from tests.wire.samples import CODECS, LIMIT, NOW, plain
from tools.capture_batches import capture_one
from tools.fake_broker import running_broker

from qanat.wire.batch_header import check_batch
from qanat.wire.compression import Codec

FOLDER = Path(__file__).resolve().parent.parent / "captures"
LISTING = json.loads((FOLDER / "captures.json").read_text())


def decoded(field: str | None) -> bytes | None:
    return None if field is None else base64.b64decode(field)


def sent(records: Any, count: int) -> list[Any]:
    return [
        records.Record(
            offset,
            message["timestamp"],
            decoded(message["key"]),
            decoded(message["value"]),
            tuple((key, decoded(value)) for key, value in message["headers"]),
        )
        for offset, message in enumerate(LISTING["sent"][:count])
    ]


@pytest.mark.parametrize("capture", LISTING["captures"], ids=lambda capture: capture["file"])
def test_a_real_producers_batch_is_understood(wire: Wire, capture: dict[str, Any]) -> None:
    batch = (FOLDER / capture["file"]).read_bytes()
    records = sent(wire.records, capture["records"])
    codec = Codec.from_name(capture["codec"])

    assert check_batch(batch).codec == codec
    assert wire.records.decode_records(batch, LIMIT) == records
    assert list(wire.columns.decode_columns([batch], limit_bytes=LIMIT).offsets) == list(range(len(records)))
    for other in CODECS:
        assert wire.records.decode_records(wire.records.reencode(batch, other, LIMIT), LIMIT) == records


@pytest.mark.parametrize("capture", LISTING["captures"], ids=lambda capture: capture["file"])
def test_we_write_the_same_records_as_the_real_producer(wire: Wire, capture: dict[str, Any]) -> None:
    batch = (FOLDER / capture["file"]).read_bytes()
    theirs = wire.records.reencode(batch, Codec.NONE, LIMIT)

    ours = wire.records.encode_batch(sent(wire.records, capture["records"]))

    assert ours[61:] == theirs[61:]


def test_every_client_was_captured_in_every_compression() -> None:
    captured = {(capture["file"].rsplit("-", 1)[0], capture["codec"]) for capture in LISTING["captures"]}

    assert len(captured) == 3 * len(CODECS)


def test_the_capture_tool_still_captures_what_is_checked_in(tmp_path: Path, compiled: Wire) -> None:
    capture = capture_one(tmp_path, "librdkafka", "zstd")

    batch = (tmp_path / str(capture["file"])).read_bytes()
    assert capture["records"] == len(LISTING["sent"])
    assert compiled.records.decode_records(batch, LIMIT) == sent(compiled.records, len(LISTING["sent"]))


@pytest.mark.parametrize("read", [read_by_librdkafka, read_by_kafka_python])
def test_real_consumers_read_what_we_write(wire: Wire, read: Callable[[str, int], list[Reading]]) -> None:
    records = plain(wire.records, 20)
    columns = wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT)
    with running_broker() as broker:
        for codec in CODECS:
            broker.append(wire.records.encode_batch(records, codec=codec))
            for batch, _count in wire.columns.encode_columns(columns, codec=codec):
                broker.append(batch)
            broker.append(
                wire.control.encode_marker(
                    wire.control.Marker(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW
                )
            )
            whole = wire.records.encode_batch(records, codec=codec)
            broker.append(wire.filtering.retain(whole, [True] * 15 + [False] * 5, LIMIT, delete_horizon_ms=NOW + 5))
        readings = read(broker.address, 55 * len(CODECS))

    expected = (records + records + records[:15]) * len(CODECS)
    assert [reading[1:] for reading in readings] == [(r.timestamp, r.key, r.value, r.headers) for r in expected]
    starts = [61 * codec for codec in range(len(CODECS))]
    offsets = [start + offset for start in starts for offset in [*range(40), *range(41, 56)]]
    assert [reading.offset for reading in readings] == offsets
