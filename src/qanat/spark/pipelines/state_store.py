"""The store of a query's state: RocksDB, outside of Java's heap, with changes in the checkpoint instead of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.spark.machine_memory import local_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STORE = "spark.sql.streaming.stateStore"
_PROVIDER = f"{_STORE}.providerClass"
_SETTINGS = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # All stores of a process share one cache and its bound.
    f"{_STORE}.rocksdb.boundedMemoryUsage": "true",
    f"{_STORE}.rocksdb.maxMemoryUsageMB": "256",
}


_PARTITIONS = "spark.sql.shuffle.partitions"


def prepare_state(spark: SparkSession, most_partitions: int | None = None) -> None:
    """Keep the state of queries that start from now on in RocksDB, in a partition a core on one machine.

    Settings that the user made remain, and so do the store and the partitions that an existing checkpoint names.
    """
    chosen = spark.conf.getAll
    for name, value in {**_SETTINGS, **_partitions(chosen.get("spark.master", ""), most_partitions)}.items():
        if name not in chosen:
            spark.conf.set(name, value)


def _partitions(master: str, most: int | None) -> dict[str, str]:
    """
    >>> _partitions("local[2]", 8), _partitions("yarn", None)
    ({'spark.sql.shuffle.partitions': '2'}, {})
    """
    if not master.startswith("local"):
        return {} if most is None else {_PARTITIONS: str(most)}
    cores = local_cores(master)
    return {_PARTITIONS: str(cores if most is None else min(cores, most))}
