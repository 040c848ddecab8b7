"""The command line: versions, exit codes, one sentence for an error."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cyclopts import App

from qanat import __version__
from qanat.app import main
from qanat.app.command_tree import build_app
from qanat.model.errors import QanatError


def app_that_raises(fault: BaseException) -> App:
    app = App(suppress_keyboard_interrupt=False)

    @app.default
    def fail() -> None:
        raise fault

    return app


def test_the_version_is_printed_without_loading_what_it_does_not_need() -> None:
    program = (
        "import sys; from qanat.app.main import run; code = run(['--version']);"
        "print(code, sorted({'asyncio', 'cyclopts', 'rich', 'uvloop'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.splitlines() == [f"qanat {__version__}", "0 []"]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    printed = capsys.readouterr().out

    assert [name for name in build_app() if not name.startswith("-") and name not in printed] == []


def test_every_command_can_be_imported_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in build_app():
        if not name.startswith("-"):
            assert main.run([name, "--help"]) == 0
            assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "example"),
    [
        (("consume",), "qanat consume orders --tail 5 -f '%p/%o %k: %v\\n'"),
        (("config", "get"), "qanat config get broker 1 log.retention.ms"),
        (("completion",), "qanat completion zsh > ~/.zfunc/_qanat"),
        (("topic", "create"), "qanat topic create orders -p 12 -c retention.ms=86400000"),
        (("start",), "qanat start"),
    ],
)
def test_examples_of_help_stand_on_lines_of_their_own(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], example: str
) -> None:
    assert main.run([*command, "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]

    assert example in lines
    assert not any("default: False" in line or "-----" in line for line in lines)


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["irrigate"]) == main.EXIT_USAGE
    assert "irrigate" in capsys.readouterr().err


def test_a_fault_is_one_sentence_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main, "build_app", lambda: app_that_raises(QanatError("The well is dry.")))

    assert main.run([]) == main.EXIT_FAILED
    assert capsys.readouterr().err == "qanat: The well is dry.\n"


def test_an_interrupt_is_not_a_failure_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "build_app", lambda: app_that_raises(KeyboardInterrupt()))

    assert main.run([]) == main.EXIT_INTERRUPTED
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_gets_no_complaint() -> None:
    command = f"{sys.executable} -m qanat.app doctor -o json | true"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert result.stderr == ""
