"""Qanat compared with systems that do not speak Kafka: on the same machine, in the same run, in turns.

    python -m bench.peers                      everything; make bench-peers does the same
    python -m bench.peers --quick              at most five minutes
    python -m bench.peers --systems redis      Qanat and one other

- `__main__`        the command line, and which tables there are
- `systems`         NATS JetStream, Redis Streams, and where each system is found, started and driven
- `rabbitmq`        RabbitMQ, in a folder of its own
- `redpanda`        Redpanda, where it is installed
- `launching`       a server's processes: start, first request, end
- `workloads`       the workloads
- `rounds`          the systems in turns
- `driving`         the common parts of the drivers
- `looping`         the loops of drivers on asyncio
- `drive_kafka`, `drive_nats`, `drive_redis`, `drive_rabbitmq`   a driver each: a process per run
- `report`, `page`  figures by system; `bench.report` puts them into docs/performance/report.md

Rule 1: like with like. One table has a sync before every acknowledgement, one has none; a system that cannot is not in
the table, and named with the reason.
Rule 2: nothing is dropped silently. A system that is not installed is named with the command that installs it.
Rule 3: the clients are Python's and differ, so the figure that compares servers is their CPU time per message.
"""
