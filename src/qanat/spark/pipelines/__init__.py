"""Pipelines: sources, SQL, windows and sinks, declared in YAML or written in Python, run on Structured Streaming.

What a pipeline is:

- `pipeline`          a pipeline as a value, and the options of one run
- `yaml_pipelines`    pipelines that YAML declares
- `python_pipelines`  pipelines written in Python: settings as a table, topics chosen and renamed
- `bundled`           the pipelines that come with Qanat: metrics, archive, replay, mirror
- `installed`         pipelines of installed packages
- `cases`             tests of pipelines: given rows, expected rows

YAML, decoded (pure):

- `definition`        a pipeline's sources, steps and sinks, as frozen values
- `document`          YAML with the line of each value
- `decoding`          YAML into a definition, settings filled in; errors name file, line and the nearest right word
- `combinations`      keys that go together, and values that types alone do not check
- `ordering`          which tables exist, and which sinks run before which
- `batch_limits`      the size of micro-batches: bounded unless a pipeline says otherwise
- `durations` `timestamps`   times as users write them

A definition as running queries:

- `launch`            topics created, tables built, sinks started
- `frames`            sources and steps as data frames
- `user_functions`    functions of users, `module:function`: found, checked, called
- `windows`           event-time windows of several sizes in one pass, and sessions
- `sinks`             streaming queries that write topics, Parquet, any format of Spark, functions and the terminal
- `value_output`      typed values on the way out
- `topics`            missing topics created before a query starts

Running:

- `query`             a streaming query that restarts after faults of the machine
- `state_store`       the store of a query's state: RocksDB
- `spark_faults` `back_off`   which faults are the machine's, and when a query restarts after them (pure)
- `spark_retries`     operations that are retried while a process starts too slowly
- `batch_job`         a job that is not a streaming query and reports like one
- `lake_frames`       rows of a lake as a data frame
- `query_watch`       progress, end and stop of running queries
- `progress`          Spark's progress reports, added up (pure)
- `spark_errors`      the reason of a Spark error in one sentence

Rule 1: a pipeline that comes with the package is a module in `bundled` and a line in its `catalogue`.
Rule 2: only `frames`, `windows`, `sinks`, `value_output`, `spark_retries`, `query`, `lake_frames`, parts of
        `cases` and `user_functions`, and `…_run`, `…_drill`, `micro_batches` and `rollup_processor` of `bundled` use
        PySpark, and import it when they are called.
"""
