"""Kafka's numbers of the SCRAM mechanisms."""

from __future__ import annotations

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
NAMES = {number: name for name, number in NUMBERS.items()}
