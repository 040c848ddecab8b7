"""Recorded answers as files, and the differences between two conversations.

A file is a conversation, a line is a step: `{"step": …, "answer": …}`, or `{"step": …, "as": 7}` where the answer is
that of the seventh line. A difference is found at a path such as
`responses/t/partition_responses/0/error_code`, which the list of known differences matches by pattern.
"""

from __future__ import annotations

import fnmatch
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from verify.conformance.play import Step

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "conformance" / "kafka-4.1"
LATER = ROOT / "tests" / "conformance" / "kafka-4.2"
"""Answers of a later Kafka, in conversations whose names end with `OF_LATER`."""
OF_LATER = "-of-kafka-4-2"
LISTED = ROOT / "tests" / "conformance" / "differences.yaml"
ABSENT = "(absent)"
_WORTH_A_LINE = 24
"""Shorter answers are repeated."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A known difference, and its reason."""

    what: str
    where: list[str]
    """Patterns of conversation, step and path, joined by `|`."""
    kafka: str
    qanat: str
    why: str
    kind: str
    """`deliberate`, or `not yet`."""

    def covers(self, place: str) -> bool:
        return any(fnmatch.fnmatchcase(place, pattern) for pattern in self.where)


class Difference(msgspec.Struct, frozen=True):
    """One field that differs."""

    place: str
    kafka: Any
    qanat: Any

    def __str__(self) -> str:
        return f"{self.place}: Kafka {self.kafka!r}, Qanat {self.qanat!r}"


@functools.cache
def listed() -> tuple[Listed, ...]:
    return msgspec.convert(yaml.safe_load(LISTED.read_text()), tuple[Listed, ...])


def path_of(name: str) -> Path:
    return (LATER if name.endswith(OF_LATER) else RECORDED) / f"{name}.jsonl"


def paths() -> list[Path]:
    """Every recorded conversation."""
    return sorted([*RECORDED.glob("*.jsonl"), *LATER.glob("*.jsonl")])


def write(name: str, steps: list[Step]) -> None:
    lines: list[str] = []
    first: dict[str, int] = {}
    for step in steps:
        answer = json.dumps(step.answer, ensure_ascii=False)
        line = first.setdefault(answer, len(lines) + 1)
        same = line <= len(lines) and len(answer) > _WORTH_A_LINE
        lines.append(
            json.dumps({"step": step.title} | ({"as": line} if same else {"answer": step.answer}), ensure_ascii=False)
        )
    path_of(name).write_text("\n".join(lines) + "\n")


def read(name: str) -> list[Step]:
    rows = [json.loads(line) for line in path_of(name).read_text().splitlines()]
    return [Step(row["step"], rows[row["as"] - 1]["answer"] if "as" in row else row["answer"]) for row in rows]


def compare(name: str, kafka: list[Step], qanat: list[Step]) -> Iterator[Difference]:
    """Every field that differs; steps are matched by position."""
    assert [step.title for step in qanat] == [step.title for step in kafka], "record the conversation again"
    for theirs, ours in zip(kafka, qanat, strict=True):
        first, second = dict(_flat(theirs.answer)), dict(_flat(json.loads(json.dumps(ours.answer))))
        for path in dict.fromkeys([*first, *second]):
            difference = first.get(path, ABSENT), second.get(path, ABSENT)
            if difference[0] != difference[1]:
                yield Difference(f"{name}|{theirs.title}|{path}", *difference)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}/{name}" if path else name)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}/{number}" if path else str(number))
    else:
        yield path, value
