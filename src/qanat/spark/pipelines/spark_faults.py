"""Faults of machines, not of pipelines: after them a query continues where it was. Pure.

Each has a sentence with the remedy.
"""

from __future__ import annotations

from qanat.model.errors import QanatError

TOO_SLOW = "Python worker failed to connect back"

_FAULTS = (
    (
        (TOO_SLOW,),
        "Spark gives a Python process ten seconds to start, and this machine was too busy for that",
    ),
    (
        ("No space left on device", "Disk quota exceeded"),
        "a disk is full: make room where the checkpoint, the lake and Spark's own files (spark.local.dir) are",
    ),
    (
        ("java.lang.OutOfMemoryError", "GC overhead limit exceeded", "SparkOutOfMemoryError"),
        (
            "Java's memory ran out: give it more (--conf spark.driver.memory=8g, on a cluster spark.executor.memory), "
            "or set a smaller limit_bytes"
        ),
    ),
    (
        ("Python worker exited unexpectedly",),
        (
            "a Python process of a task ended, as the system ends processes when memory runs out: give the machine "
            "more, run fewer tasks at a time (--master local[1]), or set a smaller limit_bytes"
        ),
    ),
    (
        ("java.io.EOFException", "java.net.SocketException"),
        (
            "a Python process that plans micro-batches ended, or a connection of Java broke; the system ends processes "
            "when memory runs out: give the machine more, or Java less (--conf spark.driver.memory=1g)"
        ),
    ),
    (
        ("ExecutorLostFailure", "Executor heartbeat timed out", "Lost executor"),
        (
            "an executor was lost: see why in its log; where its memory ran out, raise spark.executor.memory and "
            "spark.executor.memoryOverhead, or set a smaller limit_bytes"
        ),
    ),
    (
        ("are not at its leader: it moved", "moved to another broker while rows were uploaded"),
        (
            "the leader of a partition moved to another broker after rows were uploaded to the old one: nothing of the "
            "batch was visible, and it is written again"
        ),
    ),
)


class MachineFaultError(QanatError):
    """A fault of the machine ended a query, and another launch of its pipeline continues where it was."""


def text_of(fault: Exception) -> str:
    """The text of Spark's error, and that of its cause: of a connection that broke, only the cause has a name."""
    cause = getattr(fault, "_cause", None)
    return str(fault) if cause is None else f"{fault}\n{cause}"


def machine_fault(text: str) -> str | None:
    """The fault in Spark's error as a sentence; None where it is not the machine's.

    >>> machine_fault("Job aborted: java.io.IOException: No space left on device")[:14]
    'a disk is full'
    >>> machine_fault("[UNRESOLVED_COLUMN] there is no amuont")
    """
    return next((sentence for signs, sentence in _FAULTS if any(sign in text for sign in signs)), None)
