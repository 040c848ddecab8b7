"""Values with a schema: JSON, Avro, protobuf, CSV and text as typed columns.

- `value_format`   the format, schema and mode of a read's options
- `decoding`       from binary values to a typed column, with a reason for every misfit
- `rows`           the same value by value: slower, with an exact reason
- `conversion`     values of JSON and CSV in the types of a schema
- `json_values`, `csv_values`, `text_values`, `avro_values`, `protobuf_values`  one format each
- `avro_types`, `protobuf_types`  the columns of an Avro or protobuf schema
- `framing`        the prefix of a schema registry
- `poison`         records whose value does not fit: marked, dropped, or an error

Rule 1: whole columns are decoded natively where a library can; only a column with a misfit is decoded value by value.
        Both paths give the same result: the slow one accepts every value that the fast one accepts.
Rule 2: nothing here imports PySpark. Types are Arrow's.
Rule 3: fastavro and protobuf are imported only for their formats.
"""
