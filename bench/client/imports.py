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

PROGRAMS = {
    "asyncio and ssl": "import asyncio, ssl",
    "Producer": "from qanat.client import Producer",
    "Consumer": "from qanat.client import Consumer",
    "QueueConsumer": "from qanat.client import QueueConsumer",
    "App": "from qanat.client import App",
}
OTHERS = {"confluent_kafka": "import confluent_kafka", "aiokafka": "import aiokafka"}
"""Measured where they are installed."""


def cpu_s(program: str) -> float:
    """User and system time of an interpreter that runs this."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of imports.")
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    programs = {
        name: text
        for name, text in {**PROGRAMS, **OTHERS}.items()
        if name in PROGRAMS or importlib.util.find_spec(name)
    }
    for text in programs.values():
        cpu_s(text)  # Writes the compiled files.
    turns = [{name: cpu_s(text) for name, text in {"nothing": "", **programs}.items()} for _ in range(rounds)]
    nothing = min(turn["nothing"] for turn in turns)
    for name in programs:
        print(f"{name:18s} {1000 * (min(turn[name] for turn in turns) - nothing):4.0f} ms")


if __name__ == "__main__":
    main()
