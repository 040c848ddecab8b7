"""Pipelines in YAML, and the errors of wrong ones."""

from __future__ import annotations

import pytest

from qanat.spark.pipelines.bundled.catalogue import MODULES, every, named
from qanat.spark.pipelines.decoding import decode
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.ordering import check_names, stages
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline

GOOD = """\
name: orders
settings:
  input: orders
  limit:
checkpoint: /tmp/checkpoints
sources:
  raw:
    topic: ${input}
    limit: ${limit}
    schema: id string, amount double
steps:
  big:
    sql: select key, value from raw where record.amount > 100
sinks:
  out:
    from: big
    topic: orders.big
    partitions: 3
    every: 10 seconds
"""


def test_a_pipeline_is_decoded_with_its_settings() -> None:
    plain = decode(GOOD, "mine.yaml")
    changed = decode(GOOD, "mine.yaml", {"input": "others", "limit": "500"})

    assert (plain.sources["raw"].topic, plain.sources["raw"].limit) == ("orders", None)
    assert (changed.sources["raw"].topic, changed.sources["raw"].limit) == ("others", "500")
    assert (plain.sinks["out"].kind, plain.sinks["out"].delivery) == ("topic", "exactly-once")


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("    every: 10", "    evry: 10", r"yaml line 19: sinks.out.evry: unknown key; did you mean every"),
        ("topic: ${input}", "topic: or ders", r"line 8: sources.raw.topic: Topic name is invalid: 'or ders' contains"),
        ("topic: ${input}", "pattern: or(", r"line 7: sources.raw: option subscribePattern 'or\(' is not a regular"),
        ("    limit: ${limit}\n", "    start: erliest\n", r"7: sources.raw: option startingOffsets \(earliest, latest"),
        ("    limit: ${limit}\n", "    options: {includeHeadrs: 1}\n", r"7: .* no option includeheadrs; did you mean"),
        ("    partitions: 3", "    options: {kafka.acks: 1}", r"line 15: sinks.out: delivery=exactly-once needs"),
        ("select key, value from raw where record.amount > 100", '""', r"line 13: steps.big.sql: a query was expected"),
        ("name: orders", "name: \x01", r"^mine.yaml line 1 is not YAML: it has the character '\\x01'$"),
        ("sinks:", "sink:", r"mine.yaml line 14: sink: unknown key; did you mean sinks\?"),
        ("partitions: 3", "partitions: many", r"line 18: sinks.out.partitions: expected int"),
        ("partitions: 3", "partitions: 0", r"line 18: sinks.out.partitions: a number above 0"),
        ("10 seconds", "soon", r"line 19: sinks.out.every: 'soon' is not a duration such as"),
        ("${input}", "${inptu}", r"line 8: sources.raw.topic: there is no setting inptu; did you mean input\?"),
        ("    topic: ${input}\n", "", r"line 7: sources.raw: exactly one of topic, topics and pattern"),
        ("amount double", "amount dubble", r"sources.raw.schema: dubble is not a Spark type; did you mean double"),
        ("    from: big\n", "", r"line 15: sinks.out: from is missing"),
        ("    sql:", "    from: raw\n    sql:", r"line 12: steps.big: sql stands alone"),
        ("name: orders", "name: Orders!", r"line 1: name: a pipeline needs a name"),
        ("  raw:", "  Raw-data:", r"line 7: sources.Raw-data: names have lower-case letters"),
        ("    partitions: 3", "    delivery: at-most-once", r"here; did you mean at-least-once"),
        ("    partitions: 3", "    files: 3", r"line 15: sinks.out: partition_by and files are for parquet"),
        ("    topic: orders.big\n", "", r"line 15: sinks.out: exactly one of topic, parquet, format, python"),
        ("    topic: orders.big\n", "    format: a\n    console: true\n", r"line 15: sinks.out: exactly one of topic"),
        ("    topic: orders.big\n", "    python: write\n", r"line 17: sinks.out.python: 'write' is not module:"),
        ("    topic: orders.big\n", "    parquet: x\n    mode: update\n", r"out.mode: files are only appended to"),
        ("    topic: orders.big\n", "    format: x\n    valueFormat: json\n", r"18: .*valueFormat: it is for topics"),
        ("    partitions: 3", "    mode: replace", r"sinks.out.mode: 'replace' is not possible here; there are append"),
        ("    partitions: 3", "    write: batch", r"line 18: sinks.out.write: it is for format"),
        ("    partitions: 3", "    valueFormat: avro", r"line 15: sinks.out: valueFormat avro needs valueSchema"),
        ("    partitions: 3", "    valueFormat: jsn", r"valueFormat: 'jsn' is not possible here; did you mean json"),
        ("    partitions: 3", "    valueFormat: json\n    valueSchema: a int", r"valueSchema: it is for avro"),
        ("    partitions: 3", "    valueFormat: avro\n    valueSchema: a int", r"line 19: .*valueSchema.* is not JSON"),
        ("    partitions: 3", "    topic: again", r"line 18: sinks.out.topic is given twice"),
        ("name: orders", "name: [orders", r"mine.yaml line \d+ is not YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(wrong: str, right: str, message: str) -> None:
    assert wrong in GOOD
    with pytest.raises(PipelineError, match=message):
        decode(GOOD.replace(wrong, right, 1), "mine.yaml")


def test_windows_are_looked_at_as_well() -> None:
    text = GOOD + "  other: {from: rolled, console: true}\n"
    windows = "  rolled:\n    from: raw\n    windows: {column: t, sizes: {1m: 1 minit}, compute: {n: count(*)}}\nsinks:"
    with pytest.raises(PipelineError, match=r"line 16: steps.rolled.windows.sizes.1m: '1 minit' is not a duration"):
        decode(text.replace("sinks:", windows), "mine.yaml")
    with pytest.raises(PipelineError, match=r"steps.rolled.windows.compte: unknown key; did you mean compute"):
        decode(text.replace("sinks:", windows.replace("compute", "compte")), "mine.yaml")


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ("compute: {n: count(*)}", "line 16: steps.rolled.windows: either sizes or gap is needed"),
        ("sizes: {1m: 1 minute}, gap: 5 minutes, compute: {n: count(*)}", "either sizes or gap is needed"),
        ("gap: soon, by: [id], compute: {n: count(*)}", "windows.gap: 'soon' is not a duration"),
        ("gap: 5 minutes, compute: {n: count(*)}", "windows.gap: sessions need by"),
        ("gap: 5 minutes, by: [id], slide: 1 minute, compute: {n: count(*)}", "windows.slide: sessions do not slide"),
        (
            "sizes: {1m: 1 minute}, slide: 2 minutes, compute: {n: count(*)}",
            "windows.slide: size 1m should be at least",
        ),
        ("sizes: {1d: 2 days}, slide: 1 minute, compute: {n: count(*)}", "size 1d .* at most 1440 times"),
        ("sizes: {1m: 1 minute}, compute: {}", "windows.compute: at least one is needed"),
    ],
)
def test_windows_are_of_a_length_or_sessions(windows: str, message: str) -> None:
    step = f"  rolled:\n    from: raw\n    windows: {{column: t, {windows}}}\nsinks:"
    with pytest.raises(PipelineError, match=message):
        decode(GOOD.replace("sinks:", step), "mine.yaml")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "{parquet: a, table: b}",
            "line 6: sources.raw: exactly one of topic, topics and pattern is needed, or of parq",
        ),
        ("{parquet: a, limit: 5}", "sources.raw.limit: it is for topics"),
        ("{lake: a, start: latest}", "sources.raw.start: it is for topics"),
        ("{table: a, options: {b: c}}", "sources.raw.options: table has none"),
        ("{format: csv, schema: a strng}", "sources.raw.schema: strng is not a Spark type"),
    ],
)
def test_a_source_is_a_stream_or_a_table(source: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        decode(f"name: a\n\n\n\nsources:\n  raw: {source}\nsinks: {{out: {{from: raw, console: true}}}}", "mine.yaml")


def test_a_setting_that_does_not_exist_names_the_nearest() -> None:
    with pytest.raises(PipelineError, match=r"mine.yaml has no setting inptu; did you mean input\?"):
        decode(GOOD, "mine.yaml", {"inptu": "x"})


def test_tables_that_do_not_exist_are_named() -> None:
    with pytest.raises(PipelineError, match=r"sink out: there is no table bag; did you mean big\?"):
        check_names(decode(GOOD.replace("from: big", "from: bag"), "mine.yaml"))


def test_a_sink_that_reads_a_topic_waits_for_those_that_write_it() -> None:
    text = GOOD.replace("sources:", "sources:\n  again: {topic: orders.big}")
    text += "  copy: {from: again, parquet: /tmp/lake}\n"

    assert stages(decode(text, "mine.yaml")) == [["out"], ["copy"]]


def test_a_circle_has_no_end_and_is_refused() -> None:
    text = GOOD.replace("topic: orders.big", "topic: second").replace(
        "sources:", "sources:\n  again: {topic: second}"
    ) + "  back: {from: again, topic: orders}\n"  # fmt: skip
    with pytest.raises(PipelineError, match="sinks out, back read each other's topics"):
        stages(decode(text, "mine.yaml"))


NEEDED = {
    "archive": {"topics": "orders"},
    "mirror": {"topics": "orders", "to": "127.0.0.1:9192"},
}
"""Required settings of pipelines."""


def test_every_bundled_pipeline_is_known_by_its_own_name() -> None:
    assert [one.name for one in every()] == list(MODULES)
    for one in every():
        if one.name != "replay":  # It looks for its lake at once.
            one.check(NEEDED.get(one.name, {}))
        assert one.meaning.endswith(".")


def test_a_pipeline_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(PipelineError, match=r"there is no pipeline metrcs; did you mean metrics\?"):
        named("metrcs")
    with pytest.raises(PipelineError, match=r"cannot read the pipeline in nowhere.yaml: No such file"):
        named("nowhere.yaml")


def test_a_declared_pipeline_checks_settings_before_spark_is_there() -> None:
    with pytest.raises(PipelineError, match="limit is 'few', but must be a number of records"):
        yaml_pipeline(GOOD, "mine.yaml").check({"limit": "few"})
