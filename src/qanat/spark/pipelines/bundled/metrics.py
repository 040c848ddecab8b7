"""The pipeline `metrics`: measurements in, rollups out, exactly once; malformed and late records become dead letters.

A record is late, or from the future, by its own two times: the event's, in the JSON, and its timestamp in the log. That
does not depend on the micro-batch of a record, so that the same input gives the same output. Spark's watermark stays
behind by `delay`, which is `lateness` and `ahead` together and some time for partitions that are read unevenly. Rows
that it drops nevertheless are counted and reported.
"""

from __future__ import annotations

from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline

TEXT = """\
name: metrics
meaning: Measurements checked, counted once and rolled up by the minute, five minutes and the hour.

settings:
  input: metrics.inbound
  dead: metrics.dead                # malformed and late records, with the reason
  output: metrics.rollup
  lake: lake/metrics                # a folder, or an address that Spark can write to
  start: earliest                   # where a first run begins: earliest, latest, group
  limit:                            # records in a micro-batch; all available ones, if empty
  group: qanat-metrics              # the consumer group that shows the pipeline's progress
  lateness: 10 minutes              # how much older than its timestamp in the log a measurement may be
  ahead: 1 minute                   # how much newer
  delay: 15 minutes                 # how far Spark's watermark stays behind the newest measurement
  quantiles: percentile             # exact; percentile_approx needs less memory
  every: 10 seconds
  lake_every: 1 minute

checkpoint: checkpoints/metrics

sources:
  inbound:
    topic: ${input}
    start: ${start}
    limit: ${limit}
    group: ${group}
    headers: true
    schema: id string, metric string, source string, time bigint, value double
  rollups:
    topic: ${output}
    schema: >-
      metric string, source string, window string, start bigint, end bigint, count bigint,
      sum double, min double, max double, mean double, p50 double, p95 double, p99 double

steps:
  judged:
    sql: |
      select *, case
        when value is null then 'it has no value'
        when coalesce(record.id, record.metric, record.source, string(record.time), string(record.value)) is null
          then 'it is not a JSON object with id, metric, source, time and value'
        when coalesce(record.id, '') = '' then 'id is missing, or no text'
        when coalesce(record.metric, '') = '' then 'metric is missing, or no text'
        when coalesce(record.source, '') = '' then 'source is missing, or no text'
        when record.time is null then 'time is missing, or no whole number of milliseconds'
        when record.value is null then 'value is missing, or no number'
        when isnan(record.value) or abs(record.value) = double('Infinity') then 'value is not finite'
        when record.time > unix_millis(timestamp + interval ${ahead})
          then 'time lies more than ${ahead} after its place in the log'
        when record.time < unix_millis(timestamp - interval ${lateness})
          then 'late: time lies more than ${lateness} before its place in the log'
      end as reason
      from inbound
  rejected:
    sql: |
      select key, value, timestamp, concat(coalesce(headers, array()), array(
        named_struct('key', 'x-original-topic', 'value', cast(topic as binary)),
        named_struct('key', 'x-original-partition', 'value', cast(cast(partition as string) as binary)),
        named_struct('key', 'x-original-offset', 'value', cast(cast(offset as string) as binary)),
        named_struct('key', 'x-exception', 'value', cast(reason as binary))
      )) as headers
      from judged where reason is not null
  accepted:
    sql: |
      select record.id, record.metric, record.source, timestamp_millis(record.time) as time, record.value as measured
      from judged where reason is null
  once:
    from: accepted
    watermark: {column: time, delay: "${delay}"}
    distinct: [id]
  rolled:
    from: once
    windows:
      column: time
      sizes: {1m: 1 minute, 5m: 5 minutes, 1h: 1 hour}
      by: [metric, source]
      compute:
        count: count(*)
        sum: sum(measured)
        min: min(measured)
        max: max(measured)
        mean: avg(measured)
        quantiles: ${quantiles}(measured, array(0.5, 0.95, 0.99))
  rollup:
    sql: |
      select
        concat_ws('/', metric, source, size) as key,
        to_json(named_struct(
          'metric', metric, 'source', source, 'window', size,
          'start', unix_millis(start), 'end', unix_millis(end),
          'count', count, 'sum', sum, 'min', min, 'max', max, 'mean', mean,
          'p50', quantiles[0], 'p95', quantiles[1], 'p99', quantiles[2]
        )) as value,
        end as timestamp
      from rolled
  table_rows:
    sql: |
      select
        record.metric, record.source, record.window,
        timestamp_millis(record.start) as start, timestamp_millis(record.end) as end,
        record.count, record.sum, record.min, record.max, record.mean, record.p50, record.p95, record.p99,
        date_format(timestamp_millis(record.start), 'yyyy-MM-dd') as date,
        date_format(timestamp_millis(record.start), 'HH') as hour
      from rollups where record.metric is not null

sinks:
  dead:
    from: rejected
    topic: ${dead}
    headers: true
    every: ${every}
  rollup:
    from: rollup
    topic: ${output}
    every: ${every}
  lake:
    from: table_rows
    parquet: ${lake}
    partition_by: [date, hour]
    files: 1
    every: ${lake_every}
"""

PIPELINE = yaml_pipeline(TEXT)
