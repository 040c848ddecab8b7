"""`qanat completion`: completion scripts for shells."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that makes a shell complete `qanat`.

        qanat completion bash > ~/.local/share/bash-completion/completions/qanat
        qanat completion zsh > ~/.zfunc/_qanat
        qanat completion fish > ~/.config/fish/completions/qanat.fish

    For zsh, ~/.zfunc must be in fpath before compinit.

    Parameters
    ----------
    shell:
        Which one.
    """
    from qanat.app.command_tree import build_app

    print(build_app().generate_completion(prog_name="qanat", shell=shell))
