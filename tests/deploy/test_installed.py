"""A release installed on this machine as the page on deployment says, by PyPI's pipx; and from its sdists alone."""

from __future__ import annotations

import json
import os
import subprocess
import time
import venv
from pathlib import Path

import pytest
from tests.app.processes import clean_environment
from tests.app.start.test_start import free_port
from tests.deploy.conftest import ROOT
from tests.documents.blocks import blocks_of
from tools.toolchains.deployment import have_pipx
from tools.toolchains.registries import MissingToolError

pytestmark = pytest.mark.long

PAGE = ROOT / "docs" / "operating" / "deployment.md"
START_S = 120.0


@pytest.fixture
def pipx() -> list[str]:
    try:
        return have_pipx()
    except MissingToolError as fault:
        pytest.skip(f"{fault}: the page's block is not run")


@pytest.fixture
def place(release: Path, tmp_path: Path) -> Path:
    """A folder with what `make dist` leaves, and nothing else of the project."""
    (tmp_path / "dist").symlink_to(release)
    return tmp_path


def variables(place: Path) -> dict[str, str]:
    folders = {f"PIPX_{name}": str(place / name.lower()) for name in ("HOME", "BIN_DIR", "MAN_DIR")}
    path = os.pathsep.join([str(place / "bin_dir"), "/usr/bin", "/bin"])
    return clean_environment(BROKER_PORT=str(free_port()), PATH=path, HOME=str(place), **folders)


def run(*words: str, place: Path, given: str = "", **environment: str) -> str:
    done = subprocess.run(words, cwd=place, env=environment, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_the_lines_of_the_page_install_a_broker_by_pipx_and_start_it(pipx: list[str], place: Path) -> None:
    build, install, start = next(blocks_of(PAGE)).text.splitlines()
    assert (build, start) == ("make dist", "qanat start")
    environment = variables(place)
    tool = " ".join(pipx)
    run("bash", "-ec", f'pipx() {{ {tool} "$@"; }}; {install}', place=place, **environment)
    (installed,) = (place / "bin_dir").iterdir()
    assert installed.name == "qanat"
    broker = subprocess.Popen(["bash", "-c", f"exec {start}"], cwd=place, env=environment, stderr=subprocess.PIPE)
    address = f"127.0.0.1:{environment['BROKER_PORT']}"
    try:
        deadline = time.monotonic() + START_S
        while subprocess.run([str(installed), "-b", address, "topic", "list"], capture_output=True).returncode:
            assert broker.poll() is None, broker.stderr.read() if broker.stderr else ""
            assert time.monotonic() < deadline
        run("qanat", "-b", address, "produce", "orders", given="one\ntwo\n", place=place, **environment)
        assert run("qanat", "-b", address, "consume", "orders", "-e", place=place, **environment) == "one\ntwo\n"
    finally:
        broker.terminate()
        said = broker.communicate(timeout=START_S)[1]
    assert broker.returncode == 0, said
    assert core(place, **environment).startswith("compiled: ")


def test_a_machine_without_a_wheel_builds_both_sdists(place: Path) -> None:
    """Interpreted, which is quick; what a compiler makes of the same sources is in the wheels."""
    venv.create(place / "own", with_pip=True)
    environment = variables(place) | {"QANAT_PURE": "1"}
    pip = (str(place / "own" / "bin" / "pip"), "install", "--quiet", "-c", str(ROOT / "constraints.txt"))
    run(*pip, "--no-binary", "qanat,qanat-client", "-f", "dist", "qanat", place=place, **environment)
    environment["PATH"] = os.pathsep.join([str(place / "own" / "bin"), environment["PATH"]])
    assert "interpreted" in core(place, **environment)


def core(place: Path, **environment: str) -> str:
    rows = json.loads(run("qanat", "version", "-o", "json", place=place, **environment))
    return str({row["name"]: row["value"] for row in rows}["core"])
