"""The HTTP door: produce, consume, administer and observe, from anything that speaks HTTP.

- `settings`     what the door may be told
- `listener`     the listening socket; `protocol` one connection, with its limits
- `application`  from a request to its answer; `exchange` one of them; `problems` errors as documents (RFC 9457)
- `operations`   what an operation is; `table` all of them; `openapi`, `documentation` told to others
- `caller`       who asks
- `asking`       Kafka requests asked on a caller's behalf: of this broker, or of the one that leads; `links` over what
- `door`         the parts that operations share
- `topics`       topics by name, created on first use
- `produce`      operations that write; `incoming` records as they come, `plain_lines` very many of them,
                 `batching` into batches, `producing` into partitions, `forwarding` into those of other brokers,
                 `produced` answers; `quick_produce` the short way of a single record
- `consume`      operations that read; `told` records as they are told, `reading` out of partitions
- `streams`, `websocket`  records as they come; `following` from several brokers, `pump` never more than a client can
                 take, `stream_limits` how many
- `idempotency`  keys under which a request is written once; `transaction` how, with a note of its answer
- `subscribe`    operations of group members; `members` joins and beats for them
- `queues`       operations of share groups: acquire, acknowledge
- `topic_admin`, `group_admin`, `config_admin`, `cluster_admin`  administration; `group_offsets`, `paging` shared
- `health`       whether the node serves, and what it counts

Rule 1: this door decides nothing about topics, groups or records: it asks as a Kafka client would (`asking`), so
        that guards, limits and errors are the same at both doors.
Rule 2: nothing is remembered between two requests that another node would not know.
Rule 3: nothing here is imported before the Kafka door answers.
"""
