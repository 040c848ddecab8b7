"""A package's files are unpacked below a folder of ours, if they are what the digest says."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from pathlib import Path

import pytest
import zstandard
from tools.toolchains import debian_packages
from tools.toolchains.debian_packages import Package, architecture, find, unpack
from tools.toolchains.registries import MissingToolError


def _tar(links: dict[str, str] | None = None, **files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo("./" + name.replace("__", "/"))
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
        for name, other in (links or {}).items():
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, other
            archive.addfile(member)
    return made.getvalue()


def _package(folder: Path, name: str, data: bytes) -> Package:
    made = b"!<arch>\n"
    for part, content in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (name, data)):
        made += f"{part:<16}{0:<12}{0:<6}{0:<6}{0o100644:<8o}{len(content):<10}`\n".encode()
        made += content + b"\n" * (len(content) % 2)
    path = folder / "package.deb"
    path.write_bytes(made)
    return Package(path.as_uri(), hashlib.sha256(made).hexdigest())


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QANAT_OFFLINE", raising=False)


@pytest.mark.parametrize(
    ("name", "compress"), [("data.tar.xz", lzma.compress), ("data.tar.zst", zstandard.ZstdCompressor().compress)]
)
def test_files_below_the_prefix_are_unpacked_and_no_others(tmp_path: Path, name: str, compress: object) -> None:
    data = compress(_tar(usr__bin__tool=b"program", usr__share__text=b"words"))  # type: ignore[operator]

    unpack(_package(tmp_path, name, data), "/usr/bin", tmp_path / "into")

    assert [path.name for path in (tmp_path / "into").rglob("*")] == ["tool"]
    assert (tmp_path / "into" / "tool").read_bytes() == b"program"
    assert (tmp_path / "into" / "tool").stat().st_mode & 0o111


def test_another_name_of_a_library_is_kept_and_links_to_elsewhere_are_not(tmp_path: Path) -> None:
    links = {"usr/lib/tool.so.1": "tool.so.1.0", "usr/lib/odd": "/etc/passwd", "usr/lib/up": "../../etc/passwd"}
    data = lzma.compress(_tar(links, **{"usr__lib__tool.so.1.0": b"code"}))

    unpack(_package(tmp_path, "data.tar.xz", data), "/usr", tmp_path / "into")

    assert sorted(path.name for path in (tmp_path / "into" / "lib").iterdir()) == ["tool.so.1", "tool.so.1.0"]
    assert (tmp_path / "into" / "lib" / "tool.so.1").read_bytes() == b"code"


def test_a_package_with_another_digest_is_refused(tmp_path: Path) -> None:
    package = _package(tmp_path, "data.tar.xz", lzma.compress(_tar(usr__bin__tool=b"program")))

    with pytest.raises(MissingToolError, match="not what its digest says"):
        unpack(Package(package.url, "0" * 64), "/usr/bin", tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_a_package_is_found_by_its_suites_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_packages, "DEBIAN", tmp_path.as_uri() + "/")
    index = tmp_path / "dists" / "trixie" / "main" / f"binary-{architecture()}" / "Packages.xz"
    index.parent.mkdir(parents=True)
    paragraphs = [
        f"Package: {name}\nVersion: 1\nDescription: one\n more: words\nFilename: pool/{name}.deb\nSHA256: {name}"
        for name in ("etcd-client", "etcd-server", "etcd-server-extra")
    ]
    index.write_bytes(lzma.compress("\n\n".join(paragraphs).encode()))

    assert find("etcd-server", "trixie") == Package(f"{tmp_path.as_uri()}/pool/etcd-server.deb", "etcd-server")
    assert find("etcd-client", "trixie").sha256 == "etcd-client"
    with pytest.raises(MissingToolError, match="trixie has no etcd for"):
        find("etcd", "trixie")
