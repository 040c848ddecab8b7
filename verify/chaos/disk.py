"""A failing disk: a library that is preloaded into a broker and controlled by a byte in a file."""

from __future__ import annotations

import enum
import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("failing_disk.c")


class Condition(enum.IntEnum):
    """The condition of a disk; the numbers are those of `failing_disk.c`."""

    WELL = 0
    FULL = 1
    UNSYNCED = 2


def build_failing_disk(folder: Path) -> Path | str:
    """The path of the library, or why it cannot be built."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return "there is no C compiler (cc), so disks neither fill up nor fail (Debian: apt install gcc libc6-dev)"
    library = folder / "failing_disk.so"
    line = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"the C compiler refuses failing_disk.c, so disks neither fill up nor fail: {done.stderr.strip()[:200]}"
    return library


class Disk:
    """The disk below one folder."""

    def __init__(self, folder: Path, control: Path, library: Path | None) -> None:
        self._folder, self._control, self._library = folder, control, library
        self.become(Condition.WELL)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a process that uses it."""
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "CHAOS_DISK_CONTROL": str(self._control),
            "CHAOS_DISK_FOLDER": f"{self._folder}/",
        }

    def become(self, condition: Condition) -> None:
        # Processes map the file: the byte is changed in place.
        with self._control.open("r+b" if self._control.exists() else "wb") as control:
            control.write(bytes([condition]))
