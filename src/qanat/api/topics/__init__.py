"""The APIs about topics: metadata, and their creation, growth and deletion.

`metadata`, `describe_topic_partitions`, `create_topics`, `create_partitions`, `delete_topics`; `authorization` holds
what their rules share.
"""
