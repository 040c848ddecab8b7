"""`qanat pipeline check`: what is wrong with a pipeline, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import assignments
from qanat.app.terminal.listing import counted

if TYPE_CHECKING:
    from qanat.spark.pipelines.definition import Definition


def check(
    name: Annotated[str, Parameter(name="pipeline")],
    /,
    *,
    settings: Annotated[list[str] | None, Parameter(name=["--set", "-s"], negative="")] = None,
    checkpoint: str | None = None,
) -> int:
    """Check a pipeline: its keys, settings and tables, and the Python functions that it names. Spark is not started.

        qanat pipeline check mine.yaml --set input=orders

    Where its checkpoint has progress, say whether the pipeline still fits it. The exit code is 1 where it does not.

    Parameters
    ----------
    name:
        The name of a pipeline, or a YAML file.
    settings:
        A setting of the pipeline, as often as needed: --set name=value.
    checkpoint:
        Folder of the progress, instead of the pipeline's own.
    """
    from qanat.spark.pipelines.bundled.catalogue import named

    pipeline = named(name)
    given = assignments(settings or [])
    if pipeline.define is None:
        pipeline.check(given)
        print(f"{pipeline.name} can be run")
        return 0
    found = pipeline.define(given)
    counts = {"source": len(found.sources), "step": len(found.steps), "sink": len(found.sinks)}
    print(f"{pipeline.name} can be run: {', '.join(counted(count, noun) for noun, count in counts.items())}")
    folder = checkpoint or found.checkpoint
    return 0 if folder is None or _fits(found, folder) else 1


def _fits(pipeline: Definition, folder: str) -> bool:
    """Whether each sink fits the progress in the checkpoint, said in a line for each that has some."""
    from qanat.spark.pipelines.runs.checkpoint_notes import doubts, misfits, note_of
    from qanat.spark.pipelines.runs.checkpoints import read_note, read_progress, remedy

    is_fitting = True
    for sink in pipeline.sinks:
        progress, before = read_progress(folder, sink), read_note(folder, sink)
        if progress is None:
            continue
        at = f"micro-batch {progress.batch}, {shown_offsets(progress.offsets)}"
        if before is None:
            print(f"sink {sink}: its checkpoint ({at}) does not say what it belongs to: Spark says whether it fits")
            continue
        after = note_of(pipeline, sink)
        for reason in misfits(before, after):
            print(f"sink {sink} does not fit its checkpoint ({at}): {reason}")
            is_fitting = False
        for reason in doubts(before, after):
            print(f"sink {sink}: {reason}")
        if not misfits(before, after):
            print(f"sink {sink} fits its checkpoint: {at}")
    if not is_fitting:
        print(remedy(folder))
    return is_fitting


def shown_offsets(offsets: dict[str, dict[str, int]]) -> str:
    """
    >>> shown_offsets({"orders": {"0": 5, "1": 7}})
    'orders 0:5 1:7'
    """
    return ", ".join(
        f"{topic} {' '.join(f'{one}:{at}' for one, at in sorted(places.items(), key=lambda pair: int(pair[0])))}"
        for topic, places in sorted(offsets.items())
    )
