"""The cases of the comparison: options of reads, and rows to write, by name."""

from __future__ import annotations

import json
from typing import Any

from verify.connector.data import BASE_MS, EMPTY, MIXED, OTHER, STAMPED, TRANSACTED

Options = dict[str, str]
Write = dict[str, Any]


def _offsets(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(offsets)}})


def _mixed(**options: str) -> Options:
    return {"subscribe": MIXED, **options}


COMMITTED = {"kafka.isolation.level": "read_committed"}
BATCHES: dict[str, Options] = {
    "everything": _mixed(),
    "headers": _mixed(includeHeaders="true"),
    "two topics": {"subscribe": f"{MIXED},{OTHER}"},
    "two topics with blanks": {"subscribe": f"{MIXED} , {OTHER}"},
    "pattern": {"subscribePattern": "mixed-.*"},
    "assigned": {"assign": json.dumps({MIXED: [0, 2]})},
    "nothing there": {"subscribe": EMPTY},
    "broker's time": {"subscribe": STAMPED},
    "committed only": {"subscribe": TRANSACTED, **COMMITTED},
    "from offsets": _mixed(startingOffsets=_offsets(MIXED, 3, -2, 7)),
    "to offsets": _mixed(endingOffsets=_offsets(MIXED, 3, -1, 7)),
    "between offsets": _mixed(startingOffsets=_offsets(MIXED, 3, 4, 5), endingOffsets=_offsets(MIXED, 4, 4, 9)),
    "since a time": _mixed(startingTimestamp=str(BASE_MS + 20_500)),
    "until a time": _mixed(endingTimestamp=str(BASE_MS + 20_500)),
    "until a time after all": _mixed(endingTimestamp=str(BASE_MS + 10**9)),
    "since times": _mixed(
        startingOffsetsByTimestamp=_offsets(MIXED, BASE_MS, BASE_MS + 10_000, BASE_MS + 20_000),
        endingOffsetsByTimestamp=_offsets(MIXED, BASE_MS + 30_000, BASE_MS + 40_000, BASE_MS + 50_000),
    ),
    "a time before offsets": _mixed(startingTimestamp=str(BASE_MS + 30_000), startingOffsets="earliest"),
    "since a time after all, latest": _mixed(
        startingTimestamp=str(BASE_MS + 10**9), startingOffsetsByTimestampStrategy="latest"
    ),
    "many tasks": _mixed(minPartitions="10"),
    "small tasks": _mixed(maxRecordsPerPartition="7"),
    "beyond the end, forgiven": _mixed(endingOffsets=_offsets(MIXED, 999, 5, 5), failOnDataLoss="false"),
}
"""Batch reads that succeed."""
STREAMS: dict[str, Options] = {
    "from the beginning": _mixed(startingOffsets="earliest"),
    "in steps": _mixed(startingOffsets="earliest", maxOffsetsPerTrigger="12"),
    "from offsets": _mixed(startingOffsets=_offsets(MIXED, 3, -2, -1)),
    "committed only": {"subscribe": TRANSACTED, "startingOffsets": "earliest", **COMMITTED},
    "since a time": _mixed(startingTimestamp=str(BASE_MS + 20_500)),
}
"""Streams that end at the current end offsets."""
REFUSED: dict[str, Options] = {
    "no topic": {},
    "two ways to say it": {"subscribe": MIXED, "subscribePattern": "mixed-.*"},
    "an unknown topic": {"subscribe": "nowhere"},
    "from latest": _mixed(startingOffsets="latest"),
    "to earliest": _mixed(endingOffsets="earliest"),
    "offsets that are no JSON": _mixed(startingOffsets="{"),
    "offsets of some partitions": _mixed(startingOffsets=json.dumps({MIXED: {"0": 1}})),
    "since a time after all": _mixed(startingTimestamp=str(BASE_MS + 10**9)),
    "an empty assignment": {"assign": "{}"},
    "no number of tasks": _mixed(minPartitions="0"),
}
"""Batch reads that fail."""
DELIBERATE = {"refused: an empty assignment": "a read of nothing is more likely a mistake, so it is refused"}
"""Deliberate differences, and their reasons."""


def _write(*columns: str, **options: str) -> Write:
    return {"columns": list(columns), "options": options}


_VALUE = "concat('value ', id) value"
_KEY = "cast(id as string) key"
_PLACE = "cast(id % 3 as int) partition"
_HEADERS = (
    "array(named_struct('key', 'h', 'value', cast(id as binary)), named_struct('key', 'h', 'value', null)) headers"
)
WRITES: dict[str, Write] = {
    "by key": _write(_KEY, _VALUE),
    "binary": _write("cast(concat('key ', id) as binary) key", "cast(id as binary) value"),
    "by partition": _write(_VALUE, _PLACE),
    "by partition where there is one": _write(_KEY, _VALUE, "if(id % 2 = 0, cast(id % 3 as int), null) partition"),
    "no values": _write(_KEY, "cast(null as string) value"),
    "a column topic": _write(_KEY, _VALUE, "'TOPIC' topic", topic=""),
    "option topic before the column": _write(_KEY, _VALUE, "'elsewhere' topic"),
    "headers": _write(_KEY, _VALUE, _HEADERS, includeHeaders="true"),
    "headers, not asked for": _write(_KEY, _VALUE, _HEADERS),
    "no headers in some rows": _write(
        _KEY, _VALUE, _HEADERS.replace("array", "if(id % 2 = 0, null, array").replace(" headers", ") headers")
    ),
    "other columns": _write(_KEY, _VALUE, "id", "id offset", "0 timestampType", "'x' note"),
    "no value column": _write(_KEY),
    "a number as value": _write("id value"),
    "a number as key": _write("id key", _VALUE),
    "a long as partition": _write(_VALUE, "id partition"),
    "headers of another type": _write(_VALUE, "map('h', 'x') headers", includeHeaders="true"),
    "no topic": _write(_VALUE, topic=""),
    "no topic in a row": _write(_VALUE, "if(id = 7, null, 'TOPIC') topic", topic=""),
    "a topic that is a number": _write(_VALUE, "id topic", topic=""),
}
"""Writes of ids 0 to 19, valid and invalid. TOPIC is the case's own topic; an empty `topic` means no such option."""


def placed(write: Write, topic: str) -> Write:
    """A write to a topic of its own."""
    options = {"topic": topic, **write["options"]}
    columns = [one.replace("TOPIC", topic) for one in write["columns"]]
    return {"topic": topic, "columns": columns, "options": {name: value for name, value in options.items() if value}}
