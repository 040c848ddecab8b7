"""What producers have sent: plain slots, counted on an event loop and read from any thread."""

from __future__ import annotations

import msgspec


class ProducerMetrics(msgspec.Struct):
    """Counts of a producer since it was made."""

    records: int = 0
    """Acknowledged, or sent where no acknowledgement is asked for."""
    failed_records: int = 0
    """Given up: refused, expired, or without a retry left."""
    batches: int = 0
    """Acknowledged batches."""
    batch_bytes: int = 0
    """Their bytes, compressed."""
    requests: int = 0
    """Requests to leaders, retries included."""
    retries: int = 0
    """Batches that were sent again after a leader took them and did not acknowledge."""
