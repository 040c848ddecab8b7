"""The payloads of the Python driver: the same as `payloads.c`."""

from __future__ import annotations

_DISTINCT = 10_000
"""Payloads, so that none recurs within a batch."""
_NAMES = ("cpu.user", "cpu.system", "mem.used", "disk.read", "disk.write", "net.in", "net.out", "http.latency")
_WORD = 2**64 - 1


def payloads_of(size: int, kind: str) -> list[bytes]:
    """One letter over and over, or lines that compress as real ones do."""
    return [_metrics(size, number) for number in range(_DISTINCT)] if kind == "metrics" else [b"x" * size]


def _metrics(size: int, number: int) -> bytes:
    text, part = "", 0
    while len(text) < size:
        mixed = ((number * 64 + part) * 6364136223846793005 + 1442695040888963407) & _WORD
        text += (
            f'{{"ts":{1700000000000 + number * 7},"host":"web-{(mixed >> 33) % 40:02}",'
            f'"metric":"{_NAMES[(mixed >> 40) % 8]}","value":{(mixed >> 45) % 500}.{(mixed >> 50) % 1000:03}}}\n'
        )
        part += 1
    return text[:size].encode()
