"""What the commands have in common: how much, on which topic, how it is sent, how it is told; and what goes together.

The names are ours; those of Kafka's own `kafka-producer-perf-test` and its like are taken as well.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qanat.app.bench.broker.tasks import Amount
from qanat.app.bench.broker.temporary import BROKERS_DEFAULT
from qanat.app.client_settings import CompressionName
from qanat.app.session import WrongArgumentError

SIZE_MAX = 900_000_000
_CLIENTS_MAX = 10_000
_COUNT_MAX = 2**31 - 1


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Load:
    """How much is measured."""

    records: Annotated[int | None, Parameter(name=["--records", "-n", "--num-records", "--messages"])] = None
    """So many records in all."""
    seconds: Annotated[float | None, Parameter(name=["--seconds", "--duration"])] = None
    """For so long; 10 where neither is given."""
    warmup: Annotated[str | None, Parameter(name=["--warmup", "--warmup-records"])] = None
    """What is done before anything counts: so many records, or seconds as in 5s."""
    clients: Annotated[int, Parameter(name=["--clients", "--threads"])] = 1
    """How many clients do it together."""

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
    """The topic that is measured on."""

    topic: Annotated[str | None, Parameter(name=["--topic", "-t"])] = None
    """A topic that is there; without it, a temporary one is made, and deleted afterwards."""
    partitions: Annotated[int | None, Parameter(name=["--partitions", "-p"])] = None
    """Of the temporary topic; 1 if not given."""
    replication_factor: Annotated[int | None, Parameter(name=["--replication-factor", "-r", "--replicas"])] = None
    """Copies of each partition of the temporary topic; the broker's default otherwise."""

    def check(self) -> None:
        if self.topic is not None:
            for flag, given in (("--partitions", self.partitions), ("--replication-factor", self.replication_factor)):
                if given is not None:
                    raise WrongArgumentError(f"{flag} is for a temporary topic: {self.topic} is as it is")
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
    """How records are written."""

    size: Annotated[int, Parameter(name=["--size", "-s", "--record-size"])] = 100
    """Bytes of a record's value; random letters."""
    acks: Literal["all", "-1", "1", "0"] | None = None
    """Who must have a record before it counts: all in-sync replicas, which is the default, the leader, nobody."""
    compression: Annotated[CompressionName | None, Parameter(name=["--compression", "-z", "--compression-codec"])] = (
        None
    )
    """Codec of the batches; none unless it is said."""
    linger_ms: Annotated[float | None, Parameter(name="--linger-ms")] = None
    """How long a batch waits for more records; librdkafka's 5 ms otherwise."""
    batch_size: int | None = None
    """Bytes of a batch at most; librdkafka's 1,000,000 otherwise."""
    transactional: Annotated[bool, Parameter(negative="")] = False
    """In transactions, exactly once; those who read see what is committed."""
    transaction_ms: Annotated[int | None, Parameter(name=["--transaction-ms", "--transaction-duration-ms"])] = None
    """How long a transaction is open: 100 unless it is said."""

    def check(self, least_size: int = 0) -> None:
        at_least("--size", self.size, least_size, SIZE_MAX)
        if self.transactional and self.acks not in (None, "all", "-1"):
            raise WrongArgumentError(f"--transactional needs --acks all, not {self.acks}")
        if self.transaction_ms is not None:
            at_least("--transaction-ms", self.transaction_ms, 1, 900_000)
            if not self.transactional:
                raise WrongArgumentError("--transaction-ms says nothing without --transactional")
        if self.linger_ms is not None and not 0 <= self.linger_ms <= 900_000:
            raise WrongArgumentError(f"--linger-ms {self.linger_ms:g}: write milliseconds from 0 to 900000")
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1, _COUNT_MAX)

    @property
    def transaction_s(self) -> float:
        return (self.transaction_ms or 100) / 1000 if self.transactional else 0.0

    def properties(self) -> dict[str, str]:
        """What was said here, under librdkafka's names."""
        said = {
            "acks": self.acks,
            "compression.type": self.compression,
            "linger.ms": None if self.linger_ms is None else f"{self.linger_ms:g}",
            "batch.size": None if self.batch_size is None else str(self.batch_size),
        }
        return {name: value for name, value in said.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Report:
    """How the result is told."""

    form: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table"
    """`table` for people, `json` for programs."""
    json: Annotated[bool, Parameter(negative="")] = False
    """The same as -o json."""
    html: Path | None = None
    """Also write a page with plots into this file, which needs no other."""

    @property
    def is_json(self) -> bool:
        return self.json or self.form == "json"

    def check(self) -> None:
        """Minutes of measuring should not end at a mistyped name."""
        path = self.html
        if path is not None and (
            path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK)
        ):
            raise WrongArgumentError(
                f"cannot write {path}: it, or the folder it would be in, is not there to be written"
            )


SOME = Load()
ANYWHERE = Place()
PLAINLY = Writing()
SHOWN = Report()


def at_least(flag: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise WrongArgumentError(f"{flag} {given}: write a number from {least} to {most}")


def positive(flag: str, given: float) -> float:
    if not 0 < given <= 7 * 86_400:
        raise WrongArgumentError(f"{flag} {given:g}: write seconds, above 0 and at most a week")
    return given


def rate_of(given: float) -> float:
    """Records a second; 0 and -1, as Kafka's tool has it, are as fast as it goes."""
    if given in (0, -1):
        return 0.0
    if not 0 < given <= 100_000_000:
        raise WrongArgumentError(f"--rate {given:g}: write records a second, or 0 for as fast as it goes")
    return given
