"""Exactly once under fire: Spark copies a topic into another and into a lake while all parts are killed with -9.

    python -m verify.spark_fire                        1,000,000 records on a standalone cluster of Spark
    python -m verify.spark_fire --records 20000 --local --kills 3 --seed 7

- `job`        the driver: two streaming queries, exactly once
- `victims`    finding the processes of a driver and of its executors
- `found`      what is in the sink and in the lake afterwards
- `conductor`  fills the source, kills at drawn moments, starts again, and compares

Every record must be in the sink and in the lake exactly once, and in the sink in the order of its partition.
"""
