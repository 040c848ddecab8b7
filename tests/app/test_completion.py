"""Completion scripts: printed, valid, and with all commands."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from tools.toolchains.registries import MissingToolError
from tools.toolchains.shells import have_shell

from qanat.app import main


@cache
def script_for(shell: str) -> str:
    """Made once: every command is looked at for it."""
    printed = StringIO()
    with redirect_stdout(printed):
        assert main.run(["completion", shell]) == 0
    return printed.getvalue()


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(shell, marks=pytest.mark.long) for shell in ("zsh", "fish"))])
def test_a_script_names_the_commands_and_the_shell_can_read_it(shell: str) -> None:
    script = script_for(shell)

    assert "add-partitions" in script
    try:
        program = have_shell(shell)
    except MissingToolError as reason:
        pytest.skip(f"nothing reads the script of {shell}: {reason}")
    subprocess.run([program, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        (["qanat", "to"], {"topic"}),
        (["qanat", "topic", "add"], {"add-partitions"}),
        (["qanat", "consume", "--wh"], {"--where"}),
        (["qanat", "topic", "list", "--wat"], {"--watch"}),
        (["qanat", "topic", "list", "--output", "y"], {"yaml"}),
        (["qanat", "profile", ""], {"list", "set", "use", "delete"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bash_finishes_what_was_begun(begun: list[str], offered: set[str], tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here to complete anything")
    script = tmp_path / "qanat.bash"
    script.write_text(script_for("bash"))
    words = " ".join(f"'{word}'" for word in begun)
    # What bash does when the tabulator is pressed: the words so far, and the function that `complete` has registered.
    pressed = f"""
        source {script}
        COMP_WORDS=({words}) COMP_CWORD={len(begun) - 1}
        handler=$(complete -p qanat | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        $handler qanat '{begun[-1]}' '{begun[-2]}'
        printf '%s\n' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(["bash", "-c", pressed], capture_output=True, text=True, check=True)

    assert offered <= {line.strip() for line in result.stdout.splitlines()}, result


def test_an_unknown_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", "tcsh"]) == main.EXIT_USAGE
    assert "tcsh" in capsys.readouterr().err
