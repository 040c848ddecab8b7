"""A current etcd for tests and local clusters, in `.cache/etcd/etcd`: `python -m tools.build_etcd`.

`have_etcd` unpacks Debian's package, which takes seconds, and where that does not run builds one with Go. The command
builds the version that it is told, or the latest, into `.cache/etcd/etcd` or `FOLDER/etcd`.

etcd's server module has replace directives, so `go install` refuses it; a program of five lines around its `main` does
not. PyPI's package holds 3.5.1, which loses data (etcd#13766).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.toolchains import debian_packages
from tools.toolchains.go import environment, have_go, need_modules
from tools.toolchains.registries import MissingToolError

VERSION = "latest"
FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "etcd"
SUITE = "trixie"
"""Debian's release whose etcd is 3.5.16; the one before has 3.4."""
_MODULE = "go.etcd.io/etcd/server/v3"
_PROGRAM = f"""package main

import (
	"os"

	"{_MODULE}/etcdmain"
)

func main() {{ etcdmain.Main(os.Args) }}
"""


def have_etcd(folder: Path = FOLDER) -> Path:
    """The program, brought where it is missing; raises `MissingToolError` with both reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "etcd"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        try:
            _unpack(folder)
        except MissingToolError as debian:
            try:
                build(folder)
            except (MissingToolError, subprocess.CalledProcessError) as go:
                raise MissingToolError(f"{debian}; and Go cannot build it: {go}") from None
    return program


def _unpack(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder) as workplace:
        debian_packages.unpack(debian_packages.find("etcd-server", SUITE), "/usr/bin", Path(workplace))
        program = Path(workplace) / "etcd"
        try:
            subprocess.run([program, "--version"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise MissingToolError(f"etcd of Debian's {SUITE} does not run on this machine") from None
        program.rename(folder / "etcd")


def build(folder: Path, version: str = VERSION) -> Path:
    """Build etcd into `folder`; takes a minute or two."""
    go = str(have_go())
    need_modules("etcd's modules")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder) as sources:
        (Path(sources) / "main.go").write_text(_PROGRAM)
        for command in (
            [go, "mod", "init", "qanat.invalid/etcd"],
            [go, "get", f"{_MODULE}@{version}"],
            [go, "mod", "tidy"],
            [go, "build", "-o", "etcd", "."],
        ):
            subprocess.run(command, cwd=sources, env=environment(), check=True, stdin=subprocess.DEVNULL)
        os.replace(Path(sources) / "etcd", folder / "etcd")
    return folder.absolute() / "etcd"


def main(arguments: list[str]) -> int:
    try:
        program = build(Path(arguments[0]) if arguments else FOLDER, *arguments[1:2])
    except MissingToolError as fault:
        print(f"qanat: {fault}; or install etcd: apt install etcd-server", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as fault:
        print(f"qanat: {' '.join(fault.cmd)} failed with exit code {fault.returncode}", file=sys.stderr)
        return 1
    print(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])
    print(program)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
