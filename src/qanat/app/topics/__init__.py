"""`qanat topic`: topics of any cluster that speaks Kafka's protocol, a module per command.

- `create` `list` `describe` `delete`   topics
- `alter` `add_partitions` `trim`       changes to an existing topic
- `clone`         a topic like another one, with its records
- `record_copy`   the records of one topic copied into another
- `topic_lookup`  topics by name or regular expression
- `outcome`       what `create` and `delete` report
"""
