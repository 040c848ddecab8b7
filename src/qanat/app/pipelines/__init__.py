"""`qanat pipeline`: pipelines on Spark from the command line.

- `command`  `list`, `show`, `run`
- `packing`  `pack`: what executors need, as an archive
- `options`  a pipeline's settings as options, and what `--help` says of them
- `running`  a pipeline in this process: Spark started, signals heeded, progress told and served
- `live`     progress in the terminal: a table that is drawn again, or lines where nobody looks
- `metrics`  the same for Prometheus, on a port of its own

What a pipeline is lives in `qanat.spark.pipelines`; PySpark is imported only when one runs.
"""
