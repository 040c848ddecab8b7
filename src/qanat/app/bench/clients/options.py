"""Options that the commands share: load, topic, writing, report; and which of them exclude each other.

The names are ours; those of Kafka's own `kafka-producer-perf-test` and `kafka-consumer-perf-test` work as well.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.bench.clients.temporary_topic import BROKERS_DEFAULT
from qanat.app.bench.clients.worker_messages import Amount
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.client_settings import CompressionName

SIZE_MAX = 900_000_000
_CLIENTS_MAX = 10_000
_COUNT_MAX = 2**31 - 1


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Load:
    """How much is measured."""

    records: Annotated[int | None, Parameter(name=["--records", "-n", "--num-records", "--messages"])] = None
    """Number of records in all."""
    seconds: Annotated[float | None, Parameter(name=["--seconds", "--duration"])] = None
    """Duration. Default without --records: 10."""
    warmup: Annotated[str | None, Parameter(name=["--warmup", "--warmup-records"])] = None
    """Load before the measured one: so many records, or seconds as in 5s."""
    clients: Annotated[int, Parameter(name=["--clients", "--threads"])] = 1
    """Number of clients that share the load."""

    def amount(self, seconds: float = 10.0) -> Amount:
        if self.records is not None and self.seconds is not None:
            raise WrongArgumentError("give --records or --seconds, not both")
        at_least("--clients", self.clients, 1, _CLIENTS_MAX)
        if self.records is not None:
            at_least("--records", self.records, 1, 2**53)
            return Amount(records=self.records)
        return Amount(seconds=positive("--seconds", seconds if self.seconds is None else self.seconds))

    def warmup_amount(self, default: str = "0") -> Amount:
        text = default if self.warmup is None else self.warmup
        try:
            amount = Amount(seconds=float(text[:-1])) if text.endswith("s") else Amount(records=int(text))
        except ValueError:
            amount = Amount(records=-1)
        if not 0 <= (amount.seconds if amount.records is None else amount.records) < 2**53:  # type: ignore[operator]
            raise WrongArgumentError(f"--warmup {text}: write a number of records, or seconds as in 5s")
        return amount


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Place:
    """The topic under test."""

    topic: Annotated[str | None, Parameter(name=["--topic", "-t"])] = None
    """An existing topic. Default: a temporary one, created and deleted."""
    partitions: Annotated[int | None, Parameter(name=["--partitions", "-p"])] = None
    """Partitions of the temporary topic. Default: 1."""
    replication_factor: Annotated[int | None, Parameter(name=["--replication-factor", "-r", "--replicas"])] = None
    """Replicas of each partition of the temporary topic; the broker's default otherwise."""

    def check(self) -> None:
        if self.topic is not None:
            for flag, value in (("--partitions", self.partitions), ("--replication-factor", self.replication_factor)):
                if value is not None:
                    raise WrongArgumentError(f"{flag} is for a temporary topic: {self.topic} exists already")
        if self.partitions is not None:
            at_least("--partitions", self.partitions, 1, _COUNT_MAX)
        if self.replication_factor is not None:
            at_least("--replication-factor", self.replication_factor, 1, 32767)

    @property
    def count(self) -> int:
        return 1 if self.partitions is None else self.partitions

    @property
    def copies(self) -> int:
        return BROKERS_DEFAULT if self.replication_factor is None else self.replication_factor


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Writing:
    """Settings of producers."""

    size: Annotated[int, Parameter(name=["--size", "-s", "--record-size"])] = 100
    """Bytes of a record's value; random letters."""
    acks: Literal["all", "-1", "1", "0"] | None = None
    """Which replicas acknowledge a record: all in-sync ones (the default), 1 the leader, 0 none."""
    compression: Annotated[CompressionName | None, Parameter(name=["--compression", "-z", "--compression-codec"])] = (
        None
    )
    """Codec of the batches. Default: none."""
    linger_ms: Annotated[float | None, Parameter(name="--linger-ms")] = None
    """How long a batch waits for more records; librdkafka's 5 ms otherwise."""
    batch_size: int | None = None
    """Bytes of a batch at most; librdkafka's 1,000,000 otherwise."""
    transactional: Annotated[bool, Parameter(negative="")] = False
    """Write in transactions, exactly once; consumers read committed records only."""
    transaction_ms: Annotated[int | None, Parameter(name=["--transaction-ms", "--transaction-duration-ms"])] = None
    """Duration of a transaction. Default: 100."""

    def check(self, least_size: int = 0) -> None:
        at_least("--size", self.size, least_size, SIZE_MAX)
        if self.transactional and self.acks not in (None, "all", "-1"):
            raise WrongArgumentError(f"--transactional needs --acks all, not {self.acks}")
        if self.transaction_ms is not None:
            at_least("--transaction-ms", self.transaction_ms, 1, 900_000)
            if not self.transactional:
                raise WrongArgumentError("--transaction-ms has no effect without --transactional")
        if self.linger_ms is not None and not 0 <= self.linger_ms <= 900_000:
            raise WrongArgumentError(f"--linger-ms {self.linger_ms:g}: write milliseconds from 0 to 900000")
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1, _COUNT_MAX)

    @property
    def transaction_s(self) -> float:
        return (self.transaction_ms or 100) / 1000 if self.transactional else 0.0

    def properties(self) -> dict[str, str]:
        """These options under librdkafka's names."""
        properties = {
            "acks": self.acks,
            "compression.type": self.compression,
            "linger.ms": None if self.linger_ms is None else f"{self.linger_ms:g}",
            "batch.size": None if self.batch_size is None else str(self.batch_size),
        }
        return {name: value for name, value in properties.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Report:
    """Form of the result."""

    form: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table"
    """`table` for people, `json` for programs."""
    json: Annotated[bool, Parameter(negative="")] = False
    """The same as -o json."""
    html: Path | None = None
    """Also write a self-contained page with plots into this file."""

    @property
    def is_json(self) -> bool:
        return self.json or self.form == "json"

    def check(self) -> None:
        """Raise before the run if the page cannot be written."""
        path = self.html
        if path is not None and (
            path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK)
        ):
            raise WrongArgumentError(f"cannot write {path}: the file is not writable, or its folder does not exist")


DEFAULT_LOAD = Load()
DEFAULT_PLACE = Place()
DEFAULT_WRITING = Writing()
DEFAULT_REPORT = Report()


def at_least(flag: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise WrongArgumentError(f"{flag} {value}: write a number from {least} to {most}")


def positive(flag: str, value: float) -> float:
    if not 0 < value <= 7 * 86_400:
        raise WrongArgumentError(f"{flag} {value:g}: write seconds, above 0 and at most a week")
    return value


def rate_of(value: float) -> float:
    """Records a second; 0, or -1 as in Kafka's tool, is without a limit."""
    if value in (0, -1):
        return 0.0
    if not 0 < value <= 100_000_000:
        raise WrongArgumentError(f"--rate {value:g}: write records a second, or 0 for no limit")
    return value
