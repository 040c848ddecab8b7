"""docs/performance-log.md, generated from a run."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.app.bench.report import HEADINGS, Result, cells

_HEAD = """\
# Performance of the log

The figures of the log, each beside those of a program that only moves the same bytes, on the same machine in the same
run. The command writes this page; repeat it on your machine:

```
qanat bench log --markdown docs/performance-log.md
```

`qanat bench log --quick` takes some twenty seconds, `--only append,read` measures less, `--check` makes a missed figure
an exit code, `-o json` is for programs.
"""

_HOW = """\
## How it is measured

- Ours and the limit alternate, round by round, on the same file system with the same bytes. The ratio is taken within
  each round; ours, limit and ratio are medians over the rounds, after one round that warms up and is not counted.
  *Spread* is the lowest and the highest of the number that is judged. A ratio is *inconclusive* where
  its median and the ratio of the two printed figures fall on different sides of the bound.
- **append**: each batch is admitted like a client's (header, checksum, rules of the topic) and appended; the limit is a
  loop of `os.pwrite` of the same bytes to a growing file. Files are deleted between rounds.
- **commit**: 64 tasks on the log's runtime, each of which waits for the disk before it sends its next batch; the limit
  is one thread that writes and one that calls `fdatasync` in a loop, with the same bound of 16 MiB on unflushed
  bytes, until all is durable.
- **read**: every byte is checksummed on both sides, in the same chunks, through maps that stay open between rounds.
- **lookup**: a batch is read at random offsets; segments are sealed, their tables in files.
- **columns**: keys of 10 bytes, values of 100; the limit copies the batches and decodes nothing.
- **open** and **memory**: each round is a process of its own, and all of them count. An unclean shutdown is a process
  that ends without closing.
"""


def as_markdown(result: Result) -> str:
    """The whole page."""
    sections = [
        _HEAD,
        "## Figures\n\n" + _figures(result),
        "## Where the time of one append goes\n\n" + _parts(result),
        _HOW,
        "## Machine and versions\n\n" + _table(("what", "value"), [*result.machine.items(), *result.settings.items()]),
    ]
    if result.notes:
        sections.insert(2, "## Notes\n\n" + "\n".join(f"- {note}" for note in result.notes) + "\n")
    return "\n".join(sections)


def _figures(result: Result) -> str:
    return _table(HEADINGS, [cells(row) for row in result.rows])


def _parts(result: Result) -> str:
    intro = "One 16 KB batch, admitted and appended without fsync; each part timed alone.\n\n"
    return intro + _table(("part", "µs"), [(part.what, f"{part.took_us:.2f}") for part in result.parts])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
