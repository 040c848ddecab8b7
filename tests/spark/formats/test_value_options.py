"""Wrong options of typed values."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from qanat.model.errors import QanatError
from qanat.spark.schemas import arrow_schema, source_schema


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"valueFormat": "jsn", "valueSchema": "id int"}, "valueFormat is 'jsn', but must be one of json, avro"),
        ({"valueFormat": "json"}, "valueFormat=json needs option valueSchema"),
        ({"valueFormat": "json", "valueSchema": '{"type":"strct"}'}, "not a Spark schema in JSON"),
        ({"valueFormat": "json", "valueSchema": "id bigglint"}, "bigglint is not a Spark type; did you mean bigint"),
        ({"valueFormat": "json", "valueSchema": "id int, `id` string"}, "column id is named twice"),
        ({"valueFormat": "json", "valueSchema": "id int, tags array<strng>"}, "strng is not a Spark type"),
        ({"valueFormat": "json", "valueSchema": "id, name string"}, "column id has no type"),
        ({"valueFormat": "json", "valueSchema": "id int name string)"}, "expected a comma or the end instead of [)]"),
        ({"valueFormat": "json", "valueSchema": "id map<string>"}, "map needs , instead of >"),
        ({"valueFormat": "json", "valueSchema": "id int,"}, "a column's name is missing at its end"),
        ({"valueFormat": "avro", "valueSchema": "id int"}, "is not JSON, as Avro schemas are"),
        ({"valueFormat": "protobuf"}, "needs options protobufDescriptorFile and protobufMessage"),
        ({"valueSchema": "id int"}, "option valueSchema needs option valueFormat"),
        ({"mode": "FAILFAST"}, "option mode needs option valueFormat"),
        ({"valueFormat": "text", "valueFraming": "confluent"}, "valueFraming is for avro and protobuf"),
        ({"valueFormat": "avro", "valueSchemaFile": "/nowhere.avsc"}, "valueSchemaFile /nowhere.avsc: No such file"),
        ({"valueFormat": "json", "valueSchema": "id int", "valueSchemaFile": "x"}, "give one of them"),
        ({"valueFormat": "csv", "valueSchema": "id int", "csvDelimiter": "::"}, "csvDelimiter is '::'"),
        ({"valueFormat": "json", "valueSchema": "id int", "mode": "STRICT"}, "mode is 'STRICT', but must be one of"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, str], expected: str) -> None:
    with pytest.raises(QanatError, match=expected):
        source_schema(options)


def test_columns_are_described_in_words_that_the_jvm_reads() -> None:
    options = {"valueFormat": "json", "valueSchema": "id int, `odd name` string"}

    assert "`value` struct<id int, `odd name` string>" in str(source_schema(options))
    assert "`value` map<string,int>" in str(source_schema({**options, "valueSchema": "map<string,int>"}))
    nested = "n: array<struct<a: decimal(10, 2), `b,c`: map<string, int>>> NOT NULL COMMENT 'x, y', d TIMESTAMP"
    assert nested in str(source_schema({**options, "valueSchema": nested}))
    assert "malformed" not in str(source_schema({**options, "mode": "failfast"}))
    spelled = '{"type":"struct","fields":[{"name":"a b","type":"long","nullable":true,"metadata":{}}]}'
    assert "`value` struct<`a b`: bigint>" in str(source_schema({**options, "valueSchema": spelled}))


def test_nested_columns_of_csv_are_refused_before_anything_is_read() -> None:
    nested = StructType([StructField("value", StructType([StructField("a", ArrayType(IntegerType()))]))])

    with pytest.raises(QanatError, match="a line of CSV cannot hold a, which is nested"):
        arrow_schema(nested, {"valueFormat": "csv", "valueSchema": "a array<int>"})
