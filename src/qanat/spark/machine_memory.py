"""Memory of this machine or container, and the part of it for Java's heap. Pure, but for the files that it reads."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1 << 30
_HEAP_SHARE = 0.3
"""Python processes of tasks, RocksDB, shuffles in the page cache and brokers on the same machine need the rest."""
_LEAST_HEAP_BYTES, _MOST_HEAP_BYTES = GIB // 2, 24 * GIB


def memory_bytes(root: Path = Path("/")) -> int:
    """The memory that processes here may use: the machine's, or the limit of a control group above this process."""
    limits = [_total(root), *_limits(root)]
    return min((limit for limit in limits if limit > 0), default=_LEAST_HEAP_BYTES * 4)


def heap_bytes(memory: int, cores: int) -> int:
    """Java's heap for Spark on one machine: enough for a micro-batch a core, and a part of the memory at most.

    >>> heap_bytes(24 * GIB, 2) / GIB, heap_bytes(4 * GIB, 8) / GIB, heap_bytes(GIB, 1) / GIB
    (3.0, 1.2, 0.5)
    """
    wanted = min(int(memory * _HEAP_SHARE), (1 + cores) * GIB, _MOST_HEAP_BYTES)
    return max(_LEAST_HEAP_BYTES, wanted)


def heap_setting(master: str) -> str:
    """`spark.driver.memory` for a local master.

    >>> heap_setting("local[1]").endswith("m")
    True
    """
    return f"{heap_bytes(memory_bytes(), local_cores(master)) >> 20}m"


def local_cores(master: str) -> int:
    """The tasks that a local master runs at a time.

    >>> local_cores("local"), local_cores("local[4]"), local_cores("local[3,2]"), local_cores("local[*]") >= 1
    (1, 4, 3, True)
    """
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    return int(inside) if inside.isdecimal() else len(os.sched_getaffinity(0)) if inside == "*" else 1


def _total(root: Path) -> int:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * 1024
    return 0


def _limits(root: Path) -> list[int]:
    """The limits of control groups, of both versions: of this process's group and all groups above it."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        mount, name = ("sys/fs/cgroup", "memory.max")
        if controllers:
            if "memory" not in controllers.split(","):
                continue
            mount, name = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        # Inside of a container the group's path may be that of the host, and the files lie at the mount itself.
        below = Path(group.lstrip("/"))
        for folder in (below, *below.parents):
            limit = _text(root / mount / folder / name).strip()
            if limit.isdecimal():
                found.append(int(limit))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
