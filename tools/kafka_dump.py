"""The output of Kafka's own `DumpLogSegments` on segment files, as values.

    python -m tools.kafka_dump FILE...

One call starts one JVM, so it dumps many files at once. Facts have the names that Kafka prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.kafka_jars import have_jars, java_command

TOOL = "kafka.tools.DumpLogSegments"
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
LIMIT_SECONDS = 60
GAP = "Non-consecutive offsets in"
"""The one complaint that is right for a compacted log."""

Facts = dict[str, int | str | bool | None]

_PAIR = re.compile(r"(\w+): (\S+)")
_OPTIONAL = re.compile(r"Optional(?:Long|Int)?(?:\.empty|\[(-?\d+)\])")
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+)"
    r" valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<header_keys>.*?)\]"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?"
)
_NOISE = re.compile(r"SLF4J|WARNING:|Picked up ")


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """A record as Kafka sees it; key and value are text, which is how the tool prints them."""

    offset: int
    timestamp: int
    key: str | None
    value: str | None
    key_size: int
    value_size: int
    sequence: int
    header_keys: str
    marker: str | None
    coordinator_epoch: int | None


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """A batch: what its header says, and its records."""

    facts: Facts
    records: list[DumpedRecord]


@dataclass(frozen=True, slots=True)
class Dump:
    """The answers by file. A log has batches, every other kind of file one set of facts per entry."""

    batches: dict[Path, list[DumpedBatch]] = field(default_factory=dict)
    entries: dict[Path, list[Facts]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Complaints, each with its details on the same line."""

    def log(self, folder: Path) -> list[DumpedBatch]:
        """All batches of a partition's folder, in the order of its segments."""
        return [batch for path in sorted(self.batches) if path.parent == folder for batch in self.batches[path]]

    def entries_of(self, folder: Path, suffix: str) -> list[Facts]:
        """All entries of one kind of file in a folder."""
        paths = (path for path in sorted(self.entries) if path.parent == folder and path.suffix == suffix)
        return [entry for path in paths for entry in self.entries[path]]

    def problems_of(self, folder: Path) -> list[str]:
        return [problem for problem in self.problems if str(folder) in problem]


def dumpable(*folders: Path) -> list[Path]:
    """The files in partitions' folders that the tool knows."""
    return sorted(path for folder in folders for path in folder.iterdir() if path.suffix in DUMPED)


def dump(jars: Path, files: Iterable[Path], *options: str) -> Dump:
    """Ask Kafka about these files."""
    command = java_command(jars, TOOL, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    arguments = [*options, "--files", ",".join(map(str, files))]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    found = _parsed(done.stdout.splitlines())
    found.problems.extend(_complaints(done.stderr.splitlines()))
    if done.returncode:
        found.problems.append(f"{TOOL} ended with exit code {done.returncode}")
    return found


def dump_records(jars: Path, files: Iterable[Path]) -> Dump:
    """Everything, down to the single record."""
    return dump(jars, files, "--deep-iteration", "--print-data-log")


def _parsed(lines: Iterable[str]) -> Dump:
    found = Dump()
    path = Path()
    for line in lines:
        if line.startswith("Dumping "):
            path = Path(line.removeprefix("Dumping "))
            if path.suffix == ".log":
                found.batches[path] = []
            else:
                found.entries[path] = []
        elif line.startswith("| "):
            found.batches[path][-1].records.append(_record(line))
        elif line.startswith("baseOffset: "):
            found.batches[path].append(DumpedBatch(_facts(line), []))
        elif path.suffix != ".log" and _PAIR.match(line):
            found.entries[path].append(_facts(line))
        elif not _is_remark(line):
            found.problems.append(f"{path}: {line}")
    return found


def _is_remark(line: str) -> bool:
    return line.startswith("Log starting offset: ") or line.endswith((" is empty.", " passed sanity check."))


def _complaints(lines: Iterable[str]) -> Iterator[str]:
    """Details are indented or, in one case, on a line of their own."""
    complaint = ""
    for line in lines:
        if line.startswith(("  ", "\t", "Indexed offset: ")):
            complaint += f" | {line.strip()}"
        elif not _NOISE.match(line):
            if complaint:
                yield complaint
            complaint = line
    if complaint:
        yield complaint


def _facts(line: str) -> Facts:
    return {name: _value(text) for name, text in _PAIR.findall(line)}


def _value(text: str) -> int | str | bool | None:
    if optional := _OPTIONAL.fullmatch(text):
        return int(optional[1]) if optional[1] else None
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _record(line: str) -> DumpedRecord:
    match = _RECORD.fullmatch(line)
    assert match is not None, f"a line of unknown form: {line!r}"
    return DumpedRecord(
        offset=int(match["offset"]),
        timestamp=int(match["timestamp"]),
        key=match["key"],
        value=match["value"],
        key_size=int(match["key_size"]),
        value_size=int(match["value_size"]),
        sequence=int(match["sequence"]),
        header_keys=match["header_keys"],
        marker=match["marker"],
        coordinator_epoch=int(match["coordinator_epoch"]) if match["coordinator_epoch"] else None,
    )


def main() -> int:
    """Print Kafka's dump; exit code 1 if it complains."""
    found = dump_records(have_jars(), [Path(name).resolve() for name in sys.argv[1:]])
    for path, batches in found.batches.items():
        print(path)
        for batch in batches:
            print(" ", batch.facts)
            for record in batch.records:
                print("   ", record)
    for path, entries in found.entries.items():
        print(path)
        for entry in entries:
            print(" ", entry)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
