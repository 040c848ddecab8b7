"""Options of `.option(...)`: the names of Spark's Kafka connector, and a few more.

- `options`          `SourceOptions` and `SinkOptions`: what a read and a write are configured by
- `value_options`    `valueFormat` and its options
- `option_reader`    options taken one by one, so that unknown ones are noticed
- `ignored_options`  options of Spark's connector and Java's clients that are ignored or refused

Rule: an unknown option, or a value of the wrong kind, is an error that suggests the nearest right name.
"""
