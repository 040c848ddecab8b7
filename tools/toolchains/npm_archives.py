"""Packages of npm's registry, fetched by a known digest, for what needs no Node.js."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tools.toolchains.registries import NPM, MissingToolError, need
from tools.toolchains.unpacking import unpack_into

LIMIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Archive:
    """A package in one version, and what its archive must be."""

    name: str
    version: str
    sha256: str


def files_of(archive: Archive, *paths: str) -> list[bytes]:
    """The contents of these files; raises `MissingToolError`."""
    with tarfile.open(fileobj=io.BytesIO(_fetch(archive))) as files:
        return [_content(files, f"package/{path}") for path in paths]


def unpack(archive: Archive, folder: Path) -> Path:
    """All files, in a new folder below this one, which is returned; raises `MissingToolError`."""
    with tarfile.open(fileobj=io.BytesIO(_fetch(archive))) as files:
        unpack_into(folder, files)
    return folder / "package"


def _fetch(archive: Archive) -> bytes:
    data = _answer(archive)
    if hashlib.sha256(data).hexdigest() != archive.sha256:
        raise MissingToolError(f"npm's {archive.name} {archive.version} is not what it was: its SHA-256 differs")
    return data


def _answer(archive: Archive) -> bytes:
    registry = (os.environ.get("NPM_CONFIG_REGISTRY") or NPM).rstrip("/")
    need(f"{registry}/", archive.name)
    file = f"{archive.name.rpartition('/')[2]}-{archive.version}.tgz"
    try:
        with urllib.request.urlopen(f"{registry}/{archive.name}/-/{file}", timeout=LIMIT_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except OSError as fault:
        raise MissingToolError(f"npm's {archive.name} {archive.version} cannot be fetched: {fault}") from None


def _content(files: tarfile.TarFile, path: str) -> bytes:
    member = files.extractfile(path)
    assert member is not None
    return member.read()
