"""`qanat pipeline restart`: stop a run, and submit it again with the same definition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.client.target import run as connected
from qanat.app.pipelines.stop import WITHIN_S, stop_run
from qanat.app.pipelines.submit import WAIT_S, print_started


def restart(
    name: str,
    /,
    *,
    now: Annotated[bool, Parameter(negative="")] = False,
    within: float = WITHIN_S,
    wait: float = WAIT_S,
    target: Target = HERE,
) -> int:
    """Stop a run that was submitted on this machine, and submit it again as it was.

        qanat pipeline restart orders

    A pipeline whose file has changed since is refused: `submit` starts the new one.

    Parameters
    ----------
    name:
        The name of the run.
    now:
        Do not wait for the micro-batch.
    within:
        Seconds to wait until it has ended.
    wait:
        Seconds to wait until it runs again.
    """
    from qanat.app.pipelines.detached_runs import digest_of, start_detached, stored_command
    from qanat.app.pipelines.run_lookup import find_run
    from qanat.spark.pipelines.bundled.catalogue import named
    from qanat.spark.pipelines.runs.run_topic import read_runs

    state = find_run(connected(target, read_runs), name)
    command = stored_command(state.log)
    if command is None or state.log is None:
        raise WrongArgumentError(
            f"pipeline {name} was not submitted on this machine, but ran on {state.host}: restart it there, or stop it "
            "and submit it here"
        )
    if digest_of(named(state.pipeline).text) != command.definition:
        raise WrongArgumentError(
            f"{state.pipeline} has changed since pipeline {name} was submitted: `qanat pipeline check` says whether it "
            f"fits the checkpoint, and `qanat pipeline submit --take-over` starts it"
        )
    if stop_run(name, target, is_now=now, within_s=within) is None:
        return 1
    folder = Path(state.log).parent
    print_started(name, start_detached(name, folder, command, target, wait), state.log)
    return 0
