"""Scripts for shells: they are made, they are valid, they know the commands."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from qanat.app import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_the_commands_and_the_shell_can_read_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out

    assert "add-partitions" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_an_unknown_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", "tcsh"]) == main.EXIT_USAGE
    assert "tcsh" in capsys.readouterr().err
