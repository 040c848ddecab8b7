"""A current etcd for tests and local clusters, built with Go from the module proxy: `python -m tools.build_etcd`.

etcd's server module has replace directives, so `go install` refuses it; a program of five lines around its `main` does
not. The result is `.cache/etcd/etcd`, where the tests look for it, or `FOLDER/etcd`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "latest"
FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "etcd"
_MODULE = "go.etcd.io/etcd/server/v3"
_PROGRAM = f"""package main

import (
	"os"

	"{_MODULE}/etcdmain"
)

func main() {{ etcdmain.Main(os.Args) }}
"""


def build(folder: Path, version: str = VERSION) -> Path:
    """Build etcd into `folder`; takes a minute or two."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder.absolute() / "etcd"
    with tempfile.TemporaryDirectory() as sources:
        (Path(sources) / "main.go").write_text(_PROGRAM)
        for command in (
            ["go", "mod", "init", "qanat.invalid/etcd"],
            ["go", "get", f"{_MODULE}@{version}"],
            ["go", "mod", "tidy"],
            ["go", "build", "-o", str(program), "."],
        ):
            subprocess.run(command, cwd=sources, check=True, stdin=subprocess.DEVNULL)
    return program


def main(arguments: list[str]) -> int:
    if shutil.which("go") is None:
        print(
            "qanat: building etcd needs Go (https://go.dev/dl), or install etcd: apt install etcd-server",
            file=sys.stderr,
        )
        return 1
    try:
        program = build(Path(arguments[0]) if arguments else FOLDER, *arguments[1:2])
    except subprocess.CalledProcessError as fault:
        print(f"qanat: {' '.join(fault.cmd)} failed with exit code {fault.returncode}", file=sys.stderr)
        return 1
    print(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])
    print(program)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
