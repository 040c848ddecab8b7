"""Settings of brokers, topics and groups: their tables, their checks, and which values are in force.

- `broker_settings`      the settings of a broker
- `setting_kinds`        the types that values may have
- `topic_settings`       every setting of a topic, in one table
- `dynamic_settings`     settings that may be changed while a broker runs
- `current_settings`     the settings in force now; applies changes from the metadata store
- `group_settings`       settings of single groups
- `effective_settings`   each setting with its value and source, for DescribeConfigs

Rule: it imports no other package of the broker.
"""
