"""`qanat produce` and `qanat consume`: records between a topic and the standard streams.

- `produce`            the command; `record_producer` turns lines into batches and sends them
- `consume`            the command; `consume_plan` resolves its flags to offsets
- `group_reader`       `consume --group`: the same as a member of a group
- `record_printer`     filtered records on standard output
- `record_format`      `-f`: the percent format of kcat and rpk
- `json_envelope`      a record as one line of JSON, read and written
- `record_filter`      which records are printed
- `topic_positions`    places in a topic: offsets, ages, dates, ranges
"""
