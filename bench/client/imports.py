"""CPU time of importing the client, by turns with others: `python -m bench.client.imports --rounds 20`.

Each import is a new interpreter; the time of an interpreter that imports nothing is taken off. The bar: 150 ms.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys

from bench.client.bars import Bar, show

PROGRAMS = {
    "asyncio and ssl": "import asyncio, ssl",
    "Producer": "from qanat.client import Producer",
    "Consumer": "from qanat.client import Consumer",
    "QueueConsumer": "from qanat.client import QueueConsumer",
    "App": "from qanat.client import App",
}
LIMIT_MS = 150.0
OTHERS = {"confluent_kafka": "import confluent_kafka", "aiokafka": "import aiokafka"}
"""Measured where they are installed."""


def cpu_s(program: str) -> float:
    """User and system time of an interpreter that runs this."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def bars(rounds: int) -> list[Bar]:
    """What imports of the client cost, each with everything that its first use loads at once."""
    programs = {
        name: text
        for name, text in {**PROGRAMS, **OTHERS}.items()
        if name in PROGRAMS or importlib.util.find_spec(name)
    }
    for text in programs.values():
        cpu_s(text)  # Writes the compiled files.
    turns = [{name: cpu_s(text) for name, text in {"nothing": "", **programs}.items()} for _ in range(rounds)]
    nothing = min(turn["nothing"] for turn in turns)
    cost_ms = {name: 1000 * (min(turn[name] for turn in turns) - nothing) for name in programs}
    for name, found in cost_ms.items():
        print(f"  {name:18s} {found:4.0f} ms", flush=True)
    return [
        Bar(f"import of {name}: CPU time", found, LIMIT_MS, "at most", "ms")
        for name, found in cost_ms.items()
        if PROGRAMS.get(name, "").startswith("from qanat")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of imports.")
    parser.add_argument("--rounds", type=int, default=20)
    show(bars(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
