"""A bundled pipeline over a large backlog with default settings, killed with -9 in between, compared at the end.

    python -m verify.spark_backlog --pipeline metrics --records 10_000_000 --kills 3
    python -m verify.spark_backlog --pipeline mirror --records 50_000_000

- `windows`       a plain computation of the windows, and the comparison with rollups in topic and lake
- `copies`        the comparison of a mirrored topic and of an archive with the records
- `peak_memory`   the largest resident memory of Java, Python workers, the command and the brokers
- `conductor`     fills, runs the command, kills, restarts, compares

Every window must equal the plain computation, quantiles within the stated error; every record of a copy must be there
once and in order. The records are those of `tools.backlog`.
"""
