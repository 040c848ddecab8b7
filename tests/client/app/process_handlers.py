"""Handlers that run in processes of their own: functions of a module, which those processes import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from qanat.client.app.context import Context


class AwayError(Exception):
    """An exception that cannot be made of its arguments alone."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is away")


def squared(number: int) -> None:
    raise RuntimeError(f"{number * number} in {os.getpid()}")


def own_pid(order: bytes) -> object:
    return os.getpid()


def slow_pid(order: bytes) -> object:
    time.sleep(0.4)
    return os.getpid()


def away(order: bytes) -> None:
    raise AwayError("host", 9092)


def dies_at_first(order: bytes, ctx: Context) -> None:
    """Dies with the record b"bad" at its first attempt; notes all that it has handled."""
    time.sleep(0.2)
    if order == b"bad" and ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(os.environ["SEEN"]).open("a") as seen:
        seen.write(f"{order.decode()} {ctx.attempt}\n")


def sleeps(order: bytes) -> None:
    with Path(os.environ["SEEN"]).open("a") as seen:
        seen.write(f"{os.getpid()}\n")
    time.sleep(600)
