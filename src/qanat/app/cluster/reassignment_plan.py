"""The moves of `qanat cluster reassign`: from arguments, or from a JSON file as Kafka's own tool takes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from qanat.app.client.arguments import WrongArgumentError

Wanted = dict[tuple[str, int], tuple[int, ...] | None]
"""The new replicas of each partition; None cancels its move."""


def wanted_moves(partitions: Sequence[str], to: str | None, plan: Path | None, *, is_cancelled: bool) -> Wanted:
    """The moves of a command line; raises `WrongArgumentError`."""
    if plan is not None and (partitions or to is not None):
        raise WrongArgumentError("name moves with --plan or with partitions and --to, not with both")
    if is_cancelled and to is not None:
        raise WrongArgumentError("--cancel returns partitions to the brokers they came from: leave --to out")
    if plan is not None:
        found = _read_plan(plan)
        return dict.fromkeys(found) if is_cancelled else found
    keys = [parse_partition(text) for text in partitions]
    if is_cancelled:
        return dict.fromkeys(keys)
    if not keys or to is None:
        raise WrongArgumentError("name partitions and brokers: qanat cluster reassign orders:0 --to 1,2,3")
    try:
        replicas = tuple(int(one) for one in to.split(","))
    except ValueError:
        raise WrongArgumentError(f"--to {to}: write broker ids, separated by commas") from None
    return _each_once([(key, replicas) for key in keys], "")


def parse_partition(text: str) -> tuple[str, int]:
    """A partition, out of `orders:0`; raises `WrongArgumentError`."""
    topic, separator, number = text.rpartition(":")
    if not separator or not topic or not number.isdigit():
        raise WrongArgumentError(f"{text!r} is not a partition: write topic:number")
    return topic, int(number)


def _read_plan(path: Path) -> Wanted:
    try:
        content = json.loads(path.read_text())
        rows = [
            ((str(one["topic"]), int(one["partition"])), _node_ids(one["replicas"])) for one in content["partitions"]
        ]
    except OSError as fault:
        raise WrongArgumentError(f"--plan {path}: {fault.strerror}") from None
    except (ValueError, KeyError, TypeError) as fault:
        raise WrongArgumentError(
            f'--plan {path}: it should read {{"partitions": [{{"topic": "orders", "partition": 0, "replicas": '
            f"[1, 2]}}]}} ({type(fault).__name__}: {fault})"
        ) from None
    if not rows:
        raise WrongArgumentError(f"--plan {path}: it names no partition")
    return _each_once(rows, f"--plan {path}: ")


def _node_ids(replicas: object) -> tuple[int, ...]:
    if not isinstance(replicas, list):
        raise TypeError(f"replicas are a list of broker ids, not {replicas!r}")
    return tuple(int(node_id) for node_id in replicas)


def _each_once(rows: Sequence[tuple[tuple[str, int], tuple[int, ...]]], where: str) -> Wanted:
    """The moves by partition; a partition named twice is a mistake."""
    wanted: Wanted = {}
    for key, replicas in rows:
        if key in wanted:
            raise WrongArgumentError(f"{where}{key[0]}:{key[1]} is named twice: name every partition once")
        wanted[key] = replicas
    return wanted
