"""Packages of Debian and Ubuntu, fetched over HTTPS or by a known digest, and unpacked without root.

A package is an `ar` archive with a compressed tar; its files land below a folder of ours, so nothing is installed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import lzma
import platform
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.toolchains.registries import DEBIAN, MissingToolError, need

LIMIT_SECONDS = 60
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_AR_HEADER = 60


@dataclass(frozen=True, slots=True)
class Package:
    """Where it is, and what it must be."""

    url: str
    sha256: str


def architecture() -> str:
    """Debian's name for this machine's processor."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def find(name: str, suite: str) -> Package:
    """Debian's package in a suite; raises `MissingToolError`."""
    url = f"{DEBIAN}dists/{suite}/main/binary-{architecture()}/Packages.xz"
    need(url, f"Debian's {name}")
    index = _index(url)
    start = index.find(f"\nPackage: {name}\n") + 1
    if not start and not index.startswith(f"Package: {name}\n"):
        raise MissingToolError(f"Debian's {suite} has no {name} for {architecture()}")
    paragraph = index[start:].partition("\n\n")[0]
    fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
    return Package(DEBIAN + fields["Filename"], fields["SHA256"])


@functools.lru_cache(maxsize=1)
def _index(url: str) -> str:
    return lzma.decompress(_read(url)).decode()


def unpack(package: Package, prefix: str, folder: Path) -> None:
    """Put the package's files below `prefix` into `folder`."""
    need(package.url, package.url.rpartition("/")[2])
    data = _read(package.url)
    if hashlib.sha256(data).hexdigest() != package.sha256:
        raise MissingToolError(f"{package.url} is not what its digest says")
    wanted = PurePosixPath(prefix)
    with _files(data) as files:
        for member in files:
            path = PurePosixPath("/") / member.name
            if not path.is_relative_to(wanted) or ".." in path.parts:
                continue
            target = folder / path.relative_to(wanted)
            if member.issym() and "/" not in member.linkname:  # A library's other name.
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(member.linkname)
            elif member.isfile():
                content = files.extractfile(member)
                assert content is not None
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
                target.chmod(member.mode & 0o755)


def _files(data: bytes) -> tarfile.TarFile:
    for name, content in _parts(data):
        if name == "data.tar.xz":
            return tarfile.open(fileobj=io.BytesIO(content), mode="r:xz")
        if name == "data.tar.zst":
            import zstandard

            return tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(content)))
    raise MissingToolError("the package holds no data.tar.xz or data.tar.zst")


def _parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = len(b"!<arch>\n")
    while at + _AR_HEADER <= len(data):
        header = data[at : at + _AR_HEADER]
        size = int(header[48:58])
        at += _AR_HEADER
        yield header[:16].decode().strip().rstrip("/"), data[at : at + size]
        at += size + size % 2


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except OSError as fault:
        raise MissingToolError(f"{url} cannot be fetched: {fault}") from None
