"""The wheels of a release in a fresh root file system, without a compiler and git: from installation to removal.

One root for each CPython, from Debian or Ubuntu (mmdebstrap). Nothing is fetched inside it: pip gets Qanat's wheels and
those of its dependencies from a folder. What was made once is kept in `.cache/deploy`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.start.test_start import free_port
from tests.deploy.conftest import KEPT, run
from tools.release.targets import TARGETS, Target

from qanat import __version__

pytestmark = pytest.mark.long

DEBIAN = "http://deb.debian.org/debian"
UBUNTU = "deb [trusted=yes] http://archive.ubuntu.com/ubuntu noble main universe"
"""The release whose Python is 3.12; the keys of Ubuntu are not on every machine, and this root is thrown away."""
STALE = '--aptopt=Acquire::Check-Valid-Until "false"'
"""A mirror of Debian's next release may be weeks old: its signature is checked, its age does not matter here."""
EARLIER = "0.1.99"
"""A version to upgrade from: the same files under another number, as no release is out yet."""
SYSTEMS = ("2_17", "2_27", "2_28", "2_24", "2_12", "2_5")
START_S = 120.0
QANAT = "/opt/qanat/bin/qanat"
PIP = ("/opt/qanat/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir")

can_make_roots = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("mmdebstrap") is None,
    reason="no root, or no mmdebstrap: the wheels are not tried in fresh file systems",
)


class Root:
    """A root file system, and programs that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        """The program gets the process that is started: it takes the signals."""
        proc = self.folder / "proc"
        script = f'mount -t proc proc "{proc}" && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", str(self.folder), *words]

    def run(self, *words: str, text: str = "") -> str:
        done = subprocess.run(self.command(*words), input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    @contextlib.contextmanager
    def broker(self) -> Iterator[str]:
        """A running broker's address; stopped as an operator does it."""
        port = free_port()
        words = ("start", "--port", str(port), "--data-dir", "/data", "-X", "http.port=-1")
        process = subprocess.Popen(self.command(QANAT, *words), stderr=subprocess.PIPE, text=True)
        try:
            _wait_for(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            _, said = process.communicate(timeout=START_S)
        assert process.returncode == 0, said[-2000:]

    def version(self) -> dict[str, str]:
        rows = json.loads(self.run(QANAT, "version", "-o", "json"))
        return {row["name"]: row["value"] for row in rows}


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "the broker does not listen"
        time.sleep(0.05)


@pytest.fixture(params=TARGETS, ids=lambda target: target.version)
def target(request: pytest.FixtureRequest) -> Target:
    chosen: Target = request.param
    return chosen


@pytest.fixture
def root(target: Target, tmp_path: Path) -> Iterator[Root]:
    """Python and nothing else that a minimal system does not have."""
    archive = KEPT / f"root-{target.version}.tar"
    if not archive.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        name = f"python{target.version}"
        include = f"--include={name},{name}-venv"
        where = (target.suite, str(archive), DEBIAN) if target.suite else ("noble", str(archive), UBUNTU)
        run("mmdebstrap", "--variant=minbase", STALE, include, *where)
    folder = tmp_path / "root"
    folder.mkdir()
    run("tar", "xf", str(archive), "-C", str(folder), "--exclude=./dev/*")
    device = folder / "dev" / "null"
    device.parent.mkdir(exist_ok=True)
    os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
    yield Root(folder)
    shutil.rmtree(folder)


@pytest.fixture
def wheels(release: Path, target: Target, root: Root) -> list[str]:
    """The folder `/wheels` of the root has this version, an earlier one, and the dependencies; their names."""
    into = root.folder / "wheels"
    into.mkdir()
    ours = sorted(release.glob(f"*-{target.tag}.whl"))
    assert [path.name.partition("-")[0] for path in ours] == ["qanat", "qanat_client"]
    for wheel in ours:
        shutil.copy(wheel, into)
        renumber(wheel, into, EARLIER)
    systems = [word for system in SYSTEMS for word in ("--platform", f"manylinux_{system}_{os.uname().machine}")]
    names = ["manylinux2014", "manylinux1"]
    systems += [word for name in names for word in ("--platform", f"{name}_{os.uname().machine}")]
    python = ["--python-version", target.version, "--only-binary", ":all:", "-c", "constraints.txt"]
    pip = [sys.executable, "-m", "pip", "--quiet", "download", "--dest", str(into), "-f", str(into)]
    run(*pip, *python, *systems, f"qanat=={__version__}")
    return [path.name for path in into.iterdir()]


def renumber(wheel: Path, folder: Path, version: str) -> Path:
    """The same wheel with another version in its name, its metadata and its package."""
    name, rest = wheel.name.split("-", 1)[0], wheel.name.split("-", 2)[2]
    made = folder / f"{name}-{version}-{rest}"
    record = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            path = entry.filename.replace(f"{name}-{__version__}.dist-info", f"{name}-{version}.dist-info")
            content = old.read(entry)
            if path.endswith((".dist-info/METADATA", "qanat/__init__.py")):
                content = content.replace(__version__.encode(), version.encode())
            if path.endswith(".dist-info/RECORD"):
                continue
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}")
            new.writestr(path, content)
        listed = f"{name}-{version}.dist-info/RECORD"
        new.writestr(listed, "\n".join([*record, f"{listed},,", ""]))
    return made


@can_make_roots
def test_it_is_installed_serves_is_upgraded_and_removed_without_compiler_and_git(
    root: Root, target: Target, wheels: list[str]
) -> None:
    for tool in ("gcc", "cc", "git", "make"):
        assert not (root.folder / "usr" / "bin" / tool).exists()
    root.run(f"python{target.version}", "-m", "venv", "/opt/qanat")
    before = {path for path in (root.folder / "opt").rglob("*") if "__pycache__" not in path.parts}
    install = (*PIP, "install", "--no-index", "-f", "/wheels")

    root.run(*install, f"qanat=={EARLIER}")
    assert root.version()["qanat"] == EARLIER
    with root.broker() as address:
        root.run(QANAT, "-b", address, "topic", "create", "orders")
        root.run(QANAT, "-b", address, "produce", "orders", text="one\ntwo\n")
        assert root.run(QANAT, "-b", address, "consume", "orders", "-e").split() == ["one", "two"]

    root.run(*install, "--upgrade", "qanat")
    seen = root.version()
    assert (seen["qanat"], seen["python"].rpartition(".")[0]) == (__version__, f"CPython {target.version}")
    assert seen["core"].startswith("compiled: ")
    with root.broker() as address:
        root.run(QANAT, "-b", address, "produce", "orders", text="three\n")
        assert root.run(QANAT, "-b", address, "consume", "orders", "-e").split() == ["one", "two", "three"]

    installed = [row["name"] for row in json.loads(root.run(*PIP, "list", "--format", "json"))]
    root.run(*PIP, "uninstall", "--yes", *(name for name in installed if name not in ("pip", "setuptools")))
    left = {path for path in (root.folder / "opt").rglob("*") if "__pycache__" not in path.parts}
    assert [str(path) for path in sorted(left - before) if "qanat" in path.name] == []
    assert (root.folder / "data").is_dir(), "records stay when the program goes"
