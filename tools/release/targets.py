"""The CPythons that a release has wheels for, and their headers, which are all that compiling for one needs.

Headers come from Debian's and Ubuntu's packages; Ubuntu's release pocket never changes, so a digest names its file.
"""

from __future__ import annotations

import fcntl
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.toolchains.debian_packages import Package, architecture, find, unpack
from tools.toolchains.wheels import CACHE

GLIBC = "2.17"
"""Of 2012: every Linux distribution that is still maintained has it or a newer one."""
_UBUNTU = "http://archive.ubuntu.com/ubuntu/pool/main/p/python3.12/libpython3.12-dev_3.12.3-1_amd64.deb"


@dataclass(frozen=True, slots=True)
class Target:
    """One CPython, with its ordinary build: no free-threaded one."""

    version: str
    suite: str
    """Debian's release that has its headers; empty where `pinned` names them."""
    pinned: Package | None = None

    @property
    def abi(self) -> str:
        """
        >>> Target("3.11", "bookworm").abi
        'cp311'
        """
        return "cp" + self.version.replace(".", "")

    @property
    def suffix(self) -> str:
        """How the name of a compiled module ends."""
        return f".cpython-{self.abi[2:]}-{platform.machine()}-linux-gnu.so"

    @property
    def tag(self) -> str:
        """The wheel's: interpreter, its binary interface, and the oldest system that it runs on."""
        old = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
        return f"{self.abi}-{self.abi}-{old}"


TARGETS = (
    Target("3.11", "bookworm"),
    Target("3.12", "", Package(_UBUNTU, "f5924a06298ae0689128498276d3a555e02615a4ecfa8f4417d679a097586f35")),
    Target("3.13", "trixie"),
    Target("3.14", "forky"),
)


def have_headers(target: Target, cache: Path = CACHE) -> list[Path]:
    """Folders for the compiler's `-I`; fetched where they are missing, raises `MissingToolError`."""
    folder = cache / f"python-headers-{target.version}-{architecture()}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            package = target.pinned or find(f"libpython{target.version}-dev", target.suite)
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                unpack(package, "/usr/include", Path(workplace) / "files")
                (Path(workplace) / "files").rename(folder)
    return [folder / f"python{target.version}", folder]
