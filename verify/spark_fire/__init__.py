"""Exactly-once Spark copy: from a topic to another one and to a lake, while all processes are killed with -9.

    python -m verify.spark_fire                        1,000,000 records on a standalone cluster of Spark
    python -m verify.spark_fire --records 20000 --local --kills 3 --seed 7

- `job`        the driver: two streaming queries, exactly once
- `victims`    kills processes of a driver and of its executors
- `checks`     the contents of sink and lake, compared with the source
- `conductor`  fills the source, kills at random times, restarts, and compares

Every record must be in the sink and in the lake exactly once, and in the sink in the order of its partition.
"""
