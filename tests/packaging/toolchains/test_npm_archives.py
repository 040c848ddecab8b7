"""Files of npm's packages are read where the archive is what its digest says."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from tools.toolchains import npm_archives
from tools.toolchains.npm_archives import Archive, files_of
from tools.toolchains.registries import MissingToolError


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A package of a registry in a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as files:
        for name, content in {"package/bin/tool.br": b"program", "package/LICENSE": b"MIT"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    file = tmp_path / "@scope" / "tool" / "-" / "tool-1.2.tgz"
    file.parent.mkdir(parents=True)
    file.write_bytes(made.getvalue())
    monkeypatch.delenv("QANAT_OFFLINE", raising=False)
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", tmp_path.as_uri())
    monkeypatch.setattr(npm_archives, "need", lambda url, what: None)
    return Archive("@scope/tool", "1.2", hashlib.sha256(made.getvalue()).hexdigest())


def test_files_are_read_from_the_registry_that_the_environment_names(archive: Archive) -> None:
    assert files_of(archive, "bin/tool.br", "LICENSE") == [b"program", b"MIT"]


def test_an_archive_with_another_digest_is_refused(archive: Archive) -> None:
    with pytest.raises(MissingToolError, match=r"npm's @scope/tool 1.2 is not what it was: its SHA-256 differs"):
        files_of(Archive(archive.name, archive.version, "0" * 64), "LICENSE")


def test_an_archive_that_cannot_be_fetched_is_named(archive: Archive) -> None:
    with pytest.raises(MissingToolError, match=r"npm's @scope/tool 1.3 cannot be fetched: "):
        files_of(Archive(archive.name, "1.3", archive.sha256), "LICENSE")
