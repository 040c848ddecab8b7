"""Values with a schema: JSON, Avro, protobuf, CSV and text as typed columns.

- `value_format`   what the options say about values
- `decoding`       from binary values to a typed column, with a reason for every value that does not fit
- `rows`           the same value by value: slower, and exact about what is wrong
- `conversion`     what JSON and CSV say, in the types of a schema
- `json_values`, `csv_values`, `text_values`, `avro_values`, `protobuf_values`  one format each
- `avro_types`, `protobuf_types`  the columns that a schema of theirs describes
- `framing`        the bytes that a schema registry puts before a value
- `poison`         what becomes of values that do not fit

Rule 1: whole columns are decoded natively where a library can; only a column with a misfit in it is gone through value
        by value. Both ways give the same: whatever the fast one accepts, the slow one accepts with the same result.
Rule 2: nothing here imports PySpark. Types are Arrow's.
Rule 3: fastavro and protobuf are imported by whoever asks for their format, and nobody else.
"""
