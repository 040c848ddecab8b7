"""Qanat: a distributed message queue that speaks Kafka's wire protocol.

Start reading in ARCHITECTURE.md; each package's docstring says what it owns.
"""

__version__ = "0.1.0"
