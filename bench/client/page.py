"""The page of a run, `docs/performance-client.md`: every figure with its bar, under what conditions, and all turns."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from bench.client.bars import Bar

RIVALS = ("confluent-kafka", "aiokafka", "faststream")
_HEAD = """# The Python client, measured

`make bench-client` measures every figure of `qanat.client` in one run and writes this page; `ARGS="--quick"` measures
less, in a few minutes, and `ARGS="--only produce"` a part, without a page. Clients take turns on one broker, which is a
process of its own; the first turn of each is not counted. Ratios are medians of pairs of the same turn. CPU time is
that of the client's process, all its threads, and decides: rates depend on who else uses the cores.
"""


@dataclass
class Run:
    """What a run found."""

    conditions: str
    bars: dict[str, list[Bar]] = field(default_factory=dict)
    """By section."""
    turns: dict[str, str] = field(default_factory=dict)
    """What a section printed."""

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Print as before, and keep it."""
        kept = io.StringIO()
        with contextlib.redirect_stdout(_Both(kept)):
            yield
        self.turns[name] = kept.getvalue()

    @property
    def every(self) -> list[Bar]:
        return [bar for found in self.bars.values() for bar in found]


class _Both(io.TextIOBase):
    """Standard output, and a copy of it."""

    def __init__(self, kept: io.StringIO) -> None:
        self._kept = kept
        self._shown = sys.stdout

    def write(self, text: str) -> int:
        self._shown.write(text)
        return self._kept.write(text)

    def flush(self) -> None:
        self._shown.flush()


def rivals() -> str:
    """The others, in their versions."""
    found = []
    for name in RIVALS:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def page(run: Run) -> str:
    """The whole page."""
    missed = sum(not bar.is_met for bar in run.every)
    verdict = "every bar is met" if not missed else f"{missed} of {len(run.every)} bars are not met"
    parts = [_HEAD, f"{run.conditions}; {verdict}.", *_tables(run.bars)]
    parts.append("## All turns\n\nµs are CPU time per message: the median, and the range of all turns.")
    parts += [f"### {name}\n\n```text\n{text.rstrip()}\n```" for name, text in run.turns.items() if text.strip()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _tables(bars: Mapping[str, Sequence[Bar]]) -> Iterator[str]:
    for name, found in bars.items():
        rows = "\n".join(
            f"| {bar.what} | {bar.shown} | {bar.sense} {bar.limit:g} {bar.unit} | {_met(bar)} |" for bar in found
        )
        yield f"## {name.capitalize()}\n\n| figure | found | bar | |\n| --- | --- | --- | --- |\n{rows}"


def _met(bar: Bar) -> str:
    return "met" if bar.is_met else "**not met**"
