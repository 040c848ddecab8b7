"""`qanat pipeline submit`: run a pipeline detached from the terminal."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.client.target import run as connected
from qanat.app.pipelines.run_flags import DEFAULTS, RunFlags

WAIT_S = 300.0


def submit(
    name: Annotated[str, Parameter(name="pipeline")],
    /,
    *options: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    flags: RunFlags = DEFAULTS,
    wait: float = WAIT_S,
    target: Target = HERE,
) -> None:
    """Run a pipeline as a process of its own. Returns when it runs, or says why it does not.

        qanat pipeline submit metrics --lake /data/lake/metrics
        qanat pipeline submit mine.yaml --master spark://host:7077 --checkpoint /data/checkpoints/mine
        qanat pipeline submit mine.yaml --as mine-eu --input orders.eu

    It takes the options of `qanat pipeline run`. `status`, `stop`, `restart` and `history` take the run's name.

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    wait:
        Seconds to wait until it runs.
    """
    from qanat.app.pipelines.detached_runs import (
        DetachedCommand,
        client_file,
        digest_of,
        run_folder,
        start_detached,
        store_command,
        words_of,
    )
    from qanat.spark.pipelines.bundled.catalogue import named
    from qanat.spark.pipelines.runs.run_recorder import refuse_live
    from qanat.spark.pipelines.runs.run_topic import read_runs

    if not 0 < wait <= 24 * 60 * 60:
        raise WrongArgumentError(f"--wait {wait:g}: write seconds, above 0")
    pipeline = named(name)
    request = flags.request(name, pipeline, options, target)
    run_name = request.name or pipeline.name
    if not flags.take_over:
        refuse_live(run_name, connected(target, read_runs))
    folder = run_folder(run_name, request.bootstrap)
    given = {
        "--master": [flags.master],
        "--as": [run_name],
        "--bootstrap": [request.bootstrap],
        "--set": [f"{key}={value}" for key, value in request.settings.items()],
        "--conf": flags.conf or [],
        "--checkpoint": [flags.checkpoint] if flags.checkpoint is not None else [],
        "--from-checkpoint": [flags.from_checkpoint] if flags.from_checkpoint is not None else [],
        "--metrics-port": [str(flags.metrics_port)] if flags.metrics_port is not None else [],
        "--command-config": [str(client_file(folder))] if request.client else [],
    }
    switches = {"--available-now": flags.available_now, "--take-over": flags.take_over, "--verbose": flags.verbose}
    words = ["pipeline", "run", request.origin, *words_of(given), *(flag for flag, is_on in switches.items() if is_on)]
    command = DetachedCommand(words, os.getcwd(), digest_of(pipeline.text))
    store_command(folder, command, request.client)
    state = start_detached(run_name, folder, command, target, wait)
    print_started(run_name, state, str(folder / "run.log"))


def print_started(name: str, state: object, log: str) -> None:
    """Print what became of a run that was started."""
    from qanat.model.pipeline_runs import RunState

    if not isinstance(state, RunState):
        print(f"pipeline {name} starts; `qanat pipeline status {name}` shows how far it is, its log is {log}")
        return
    print(f"pipeline {name} is {state.phase}: run {state.run_id}, process {state.pid}, log {log}")
