"""The push server: records leave for subscribers as soon as they can be read. Transport only; the rules are elsewhere.

- `server`          the connections of one node, their clock, and who is connected
- `turns`           when connections have their turn: the wheel of due times, the late pass of slow subscribers
- `rights`          which subscribers are ended when rules have changed
- `connection`      one client's socket: frames in, frames out, back-pressure
- `login`           SASL tokens before a client counts as authenticated
- `ports`           what the parts need of each other
- `local_cluster`   Kafka requests of a client, handled in this process or sent to another broker
- `subscription`    the modes `log` and `all`: which partitions, from where, commits (`edge.push_session` decides)
- `partition_reads` reads of one partition, here or at its leader, and the check where a subscriber resumes
- `deliveries`      records of the log as DATA frames, of either form
- `fresh_batches`   what push producers have just appended, for subscribers at the end of a partition
- `shared_payloads` records that were encoded lately, for all subscribers of a topic
- `queue`           the mode `queue`: a member of a share group
- `producing`       DATA of producers, appended and acknowledged once durable

Rule 1: groups, queues, offsets and permissions are those of the Kafka APIs: each goes through its handler.
Rule 2: a record is acknowledged by `broker.replicas.durable_acknowledgement`, as every other one is.
Rule 3: at zero credit, or while the socket is full, nothing is read for a subscriber.
"""
