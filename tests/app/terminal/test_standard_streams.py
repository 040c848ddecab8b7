"""`qanat` as a real process whose streams are closed, full, without a reader, or a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.app.processes import QANAT, TIMEOUT_SECONDS, clean_environment, qanat

PROGRAM = " ".join(QANAT)


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env=clean_environment(**environment),
        check=False,
    )


@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", ["--version", "--help", "doctor", "doctor -o json", "metrics rules"])
def test_a_full_disk_behind_stdout_is_one_sentence(command: str, buffering: str) -> None:
    result = shell(f"{PROGRAM} {command} > /dev/full", PYTHONUNBUFFERED=buffering)

    assert result.stderr == "qanat: cannot write to standard output: No space left on device\n"
    assert result.returncode == 1


def test_a_closed_stdout_is_one_sentence() -> None:
    result = shell(f"{PROGRAM} doctor >&-")

    assert (result.returncode, result.stderr) == (1, "qanat: standard output is closed: there is nowhere to print\n")


def test_a_stderr_that_cannot_be_written_to_changes_nothing_else() -> None:
    assert shell(f"{PROGRAM} topic list -b 127.0.0.1:1 2> /dev/full").returncode == 1
    assert shell(f"{PROGRAM} topic list -b 127.0.0.1:1 2>&-").returncode == 1


@pytest.mark.parametrize("command", ["--help", "completion bash"])
def test_a_reader_that_goes_away_ends_it_quietly_as_sigpipe_would(command: str) -> None:
    # The reader is gone before the first byte: what is printed cannot fit into the pipe by luck.
    result = shell(f"{{ sleep 0.2; {PROGRAM} {command}; }} | true")

    assert (result.returncode, result.stderr) == (141, "")


def test_a_current_directory_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    result = shell(f"cd {gone} && rmdir {gone} && {PROGRAM} doctor")

    assert result.stderr == "qanat: the current directory does not exist any more: change to another one\n"
    assert result.returncode == 1


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1", "0", "86401"])
def test_a_timeout_without_meaning_is_refused(value: str) -> None:
    result = qanat("topic", "list", f"--timeout={value}")

    assert result.returncode == 1
    assert result.stderr.startswith("qanat: --timeout ")
    assert result.stderr.endswith(": write seconds, above 0 and at most 86400\n")


def test_control_characters_of_names_are_shown_and_not_obeyed(broker_address: str) -> None:
    result = qanat("consume", "\x1b[31mred\n", "-b", broker_address)

    assert "\x1b" not in result.stderr
    assert "\\x1b[31mred\\n" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_argument_that_is_no_utf_8_is_one_sentence(broker_address: str) -> None:
    result = shell(f"{PROGRAM} topic create $'\\xff' -b {broker_address}")

    assert (result.returncode, result.stderr) == (1, "qanat: '\\udcff' is no UTF-8\n")


_ENDED_DURING_DEL = """
import os, signal, time
from qanat.app import main

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)

def command(_):
    held = Held()
    del held
    time.sleep(60)
    return 0

main._run_command = command
raise SystemExit(main.run(["bench"]))
"""


def test_a_signal_that_comes_where_nothing_can_be_raised_is_not_lost() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _ENDED_DURING_DEL], capture_output=True, check=False, env=clean_environment()
    )

    assert (result.returncode, result.stderr) == (143, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_bench_removes_its_folder_when_it_is_ended(tmp_path: Path, number: signal.Signals, code: int) -> None:
    heeding = signal.signal(number, signal.default_int_handler)  # Who ignores it (nohup) would hand that on.
    try:
        process = subprocess.Popen(
            [*QANAT, "bench", "log", "--quick"], cwd=tmp_path, stderr=subprocess.PIPE, env=clean_environment()
        )
    finally:
        signal.signal(number, heeding)
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [path.name[:12] for path in tmp_path.iterdir()] == ["qanat-bench-"]
        process.send_signal(number)
        _, complaints = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, complaints, os.listdir(tmp_path)) == (code, b"", [])
