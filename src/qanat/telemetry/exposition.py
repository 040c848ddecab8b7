"""Prometheus' text format, version 0.0.4: families of samples, as lines.

A family is a `# HELP` line, a `# TYPE` line, and its samples; the buckets of a histogram are cumulative, as the format
requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from qanat.telemetry.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]
Source = TypeVar("Source")


class Sample(NamedTuple):
    """One number, or one histogram, of a family."""

    labels: Mapping[str, str]
    value: float | Histogram


@dataclass(frozen=True, slots=True)
class Family(Generic[Source]):
    """A metric: its name, meaning and labels, and how to read it."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...]
    collect: Callable[[Source], Iterable[Sample | None]]
    """Its samples; None between two of them where one takes long to find."""

    def lines(self, source: Source) -> Iterator[str]:
        """The family as text; an empty line where there is nothing yet, and others may have their turn."""
        yield f"# HELP {self.name} {_escaped(self.meaning)}\n"
        yield f"# TYPE {self.name} {self.kind}\n"
        for sample in self.collect(source):
            if sample is None:
                yield ""
                continue
            labels, value = sample
            if isinstance(value, Histogram):
                yield from _histogram_lines(self.name, labels, value)
            else:
                yield f"{self.name}{_labels(labels)} {_number(value)}\n"


def _histogram_lines(name: str, labels: Mapping[str, str], histogram: Histogram) -> Iterator[str]:
    reached = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        reached += count
        yield f"{name}_bucket{_labels({**labels, 'le': _number(bound)})} {reached}\n"
    yield f"{name}_sum{_labels(labels)} {_number(histogram.total)}\n"
    yield f"{name}_count{_labels(labels)} {reached}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value, quote=True)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(value)
