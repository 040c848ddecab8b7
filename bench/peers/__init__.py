"""Qanat beside systems that do not speak Kafka: the same machine, the same run, in turns.

    python -m bench.peers                      everything; make bench-peers does the same
    python -m bench.peers --quick              at most five minutes
    python -m bench.peers --systems redis      Qanat and one other

- `__main__`        the command line, and which tables there are
- `systems`         NATS JetStream, Redis Streams, and where each system is found, started and driven
- `rabbitmq`        RabbitMQ, in a folder of its own
- `redpanda`        Redpanda, where somebody has brought it
- `launching`       a server's processes: started, asked, ended
- `workloads`       what is measured
- `rounds`          the systems in turns
- `driving`         what the drivers have in common
- `looping`         the loops of those whose library is asyncio's
- `drive_kafka`, `drive_nats`, `drive_redis`, `drive_rabbitmq`   a driver each: a process per run
- `report`, `page`  figures by system; `bench.report` puts them into docs/performance.md

Rule 1: like with like. One table has a sync before every acknowledgement, one has it nowhere; who cannot is left out of
the table, by name and with the reason.
Rule 2: nothing is dropped silently. A system that is not here is named with the command that brings it.
Rule 3: the clients are Python's and differ, so the figure that compares servers is their CPU time per message.
"""
