"""Java's heap follows the memory of the machine, or of the container."""

from __future__ import annotations

from pathlib import Path

import pytest

from qanat.spark.machine_memory import GIB, heap_bytes, memory_bytes
from qanat.spark.session import session_memory


def machine(root: Path, groups: str, limits: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": "MemTotal: 16777216 kB\n", "proc/self/cgroup": groups, **limits}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "memory"),
    [
        ("0::/\n", {}, 16 * GIB),
        ("0::/\n", {"sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}, 2 * GIB),
        ("0::/a/b\n", {"sys/fs/cgroup/a/memory.max": f"{4 * GIB}", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 4 * GIB),
        ("0::/elsewhere\n", {"sys/fs/cgroup/memory.max": f"{GIB}\n"}, GIB),
        ("5:cpu:/x\n4:memory:/x\n", {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": f"{GIB}"}, GIB),
        ("4:memory:/\n", {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 16 * GIB),
    ],
    ids=["none", "container", "a group above", "the path of the host", "version 1", "version 1 without limit"],
)
def test_the_smallest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], memory: int) -> None:
    assert memory_bytes(machine(tmp_path, groups, limits)) == memory


def test_a_heap_is_a_part_of_the_memory_and_no_more_than_its_cores_need() -> None:
    assert heap_bytes(2 * GIB, 4) < GIB
    assert heap_bytes(64 * GIB, 2) == 3 * GIB
    assert heap_bytes(512 * GIB, 128) == 24 * GIB


def test_a_heap_that_the_user_chose_remains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert session_memory("local[2]")["spark.driver.memory"].endswith("m")
    assert session_memory("spark://host:7077") == {}
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 5g\n")
    assert session_memory("local[2]") == {}
