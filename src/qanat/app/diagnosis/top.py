"""`qanat top`: what a cluster does, live: brokers, topics, groups."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.diagnosis.activity import Activity, activity_of
from qanat.app.diagnosis.cluster_load import brokers_of, read_load
from qanat.app.diagnosis.top_screen import screen_of
from qanat.app.terminal.standard_streams import print_error
from qanat.connection.cluster import Cluster
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.diagnosis.readings import ClusterReading

EVERY_MIN_S, EVERY_MAX_S = 0.5, 3600.0
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The alternate screen, without a cursor: what was on the terminal is there again at the end."""


def top(
    *,
    every: float = 2.0,
    once: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    target: Target = HERE,
) -> None:
    """Show what a cluster does, live: brokers, the busiest topics, and the groups that are furthest behind.

        qanat top
        qanat top --once -o json

    Ends with Ctrl-C; the terminal is then as it was. Where the output is no terminal, or with -o json, one picture
    follows another.

    Parameters
    ----------
    every:
        Seconds between two pictures; rates are of that time.
    once:
        Show one picture and end.
    output:
        `table` for people; `json` for programs, one line a picture.
    """
    if not EVERY_MIN_S <= every <= EVERY_MAX_S:
        raise WrongArgumentError(f"--every {every:g}: write seconds, from {EVERY_MIN_S:g} to {EVERY_MAX_S:g}")
    is_live = output == "table" and not once and sys.stdout.isatty()
    run(target, lambda cluster: _pictures(cluster, every, once=once, is_json=output == "json", is_live=is_live))


async def _pictures(cluster: Cluster, every_s: float, *, once: bool, is_json: bool, is_live: bool) -> None:
    brokers = await brokers_of(cluster)
    before = await read_load(cluster, brokers)
    if is_live:
        sys.stdout.write(_ENTER)
    try:
        while True:
            await asyncio.sleep(every_s)
            brokers, after = await _look(cluster, brokers, every_s)
            show(activity_of(before, after, brokers), is_json=is_json, is_live=is_live)
            if once:
                return
            before = after
    finally:
        if is_live:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()


async def _look(cluster: Cluster, brokers: list[int], every_s: float) -> tuple[list[int], ClusterReading]:
    """The brokers and their readings; a cluster that does not answer for a while does not end it."""
    while True:
        try:
            brokers = await brokers_of(cluster)
            return brokers, await read_load(cluster, brokers)
        except (UnreachableError, OutOfTimeError) as fault:
            print_error(str(fault))
            await asyncio.sleep(every_s)


def show(activity: Activity, *, is_json: bool, is_live: bool) -> None:
    """One picture."""
    if is_json:
        print(msgspec.json.encode(activity).decode(), flush=True)
        return
    width, height = _size() if is_live else (120, 1000)
    lines = screen_of(activity, time.strftime("%H:%M:%S"), width, height)
    if is_live:
        text = "".join(f"{line}{_CLEAR_LINE}\r\n" for line in lines[:-1]) + f"{lines[-1]}{_CLEAR_LINE}"
        sys.stdout.write(f"{_HOME}{text}{_CLEAR_BELOW}")
        sys.stdout.flush()
    else:
        print("\n".join([*lines, ""]), flush=True)


def _size() -> tuple[int, int]:
    """Columns and lines of the terminal, which may change at any time."""
    import shutil

    found = shutil.get_terminal_size((80, 24))
    return max(1, found.columns), max(1, found.lines)
