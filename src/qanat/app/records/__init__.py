"""`qanat produce` and `qanat consume`: records between a topic and the standard streams.

- `produce`            the command; `record_producer` turns lines into batches and sends them
- `consume`            the command; `consume_plan` resolves its flags to offsets
- `topic_reader`       rounds of fetches from some offsets to others
- `group_reader`       `consume --group`: the same as a member of a group
- `record_printer`     filtered records on standard output
- `record_format`      `-f`: the percent format of kcat and rpk
- `json_envelope`      a record as one line of JSON, read and written
- `filter_expression`  `--where`: conditions on records
- `topic_positions`    places in a topic: offsets, ages, dates, ranges
"""
