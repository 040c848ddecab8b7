"""What it costs when a broker of three goes, and what partitions cost: real processes, librdkafka, acks=all.

    python -m bench.failover --json failover.json
    python -m bench.failover --quick --only kill,stop

- `losses`     the leader killed, or stopped in good order, under steady writes; Kafka's as well
- `partitions` a broker with 1,000 partitions killed and started again; what 10 to 5,000 partitions cost
- `rows`       what was found as lines of a result

`bench.report` puts them into docs/performance.md.
"""
