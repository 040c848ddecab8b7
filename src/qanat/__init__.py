"""Qanat: a distributed message queue that speaks Kafka's wire protocol.

Start reading in ARCHITECTURE.md; each package's docstring says what it owns.
"""

import sys

__version__ = "0.2.0"

if "t" in getattr(sys, "abiflags", ""):
    raise ImportError(
        "Qanat does not run on free-threaded builds of CPython: its per-record core relies on the interpreter's lock; "
        f"use the ordinary Python {sys.version_info.major}.{sys.version_info.minor}"
    )
