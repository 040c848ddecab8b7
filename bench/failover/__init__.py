"""Failover and partition costs of three brokers: real processes, librdkafka, acks=all.

    python -m bench.failover --json failover.json
    python -m bench.failover --quick --only kill,stop

- `losses`     the leader killed, or shut down cleanly, under steady writes; Kafka's as well
- `partitions` a broker with 1,000 partitions killed and restarted; the cost of 10 to 5,000 partitions
- `rows`       the figures as rows of a result

`bench.report` puts them into docs/performance/report.md.
"""
