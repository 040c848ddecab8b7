"""One broker for all tests of client commands; each test has topics and groups of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest
from tests.app.processes import running_broker

from qanat.app import main

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="session")
def broker_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("broker"), command="dev") as broker:
        yield broker.address
        assert broker.stop() == 0


@pytest.fixture
def run(broker_address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the broker: in this process, for speed, but through its real standard streams."""
    monkeypatch.setenv("QANAT_BOOTSTRAP_SERVERS", broker_address)

    def run_command(*arguments: str, given: str | bytes = b"") -> CompletedProcess[str]:
        capfd.readouterr()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given.encode() if isinstance(given, str) else given)
            stdin.seek(0)
            code = _with_stdin(stdin.fileno(), arguments)
        printed = capfd.readouterr()
        return CompletedProcess(arguments, code, printed.out, printed.err)

    return run_command


def _with_stdin(descriptor: int, arguments: tuple[str, ...]) -> int:
    before = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        return main.run(arguments)
    finally:
        sys.stdout.flush()
        os.dup2(before, 0)
        os.close(before)
