"""`qanat pipeline`: pipelines on Spark from the command line, a module per command.

- `list` `show` `run`  the pipelines that come with Qanat, and your own in YAML
- `check`              what is wrong with a pipeline, without Spark
- `test`               cases of a pipeline: given rows, expected rows
- `case_runner`        cases in a small Spark of this process
- `pack`               an archive of Qanat for the executors of a cluster
- `submit` `status` `stop` `restart` `history`   runs that outlive the command
- `run_flags`          the flags of `run` and `submit`
- `detached_runs`      a run as a process of its own, with a log
- `run_lookup`         a run by its name
- `pipeline_options`   a pipeline's settings as options, and their `--help`
- `pipeline_runner`    a pipeline in this process: Spark, signals, progress
- `progress_display`   progress in the terminal: a live table, or lines without a terminal

Pipelines themselves are in `qanat.spark.pipelines`; PySpark is imported only when one runs.
"""
