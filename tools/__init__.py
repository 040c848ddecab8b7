"""Programs and parts that developers share: fetchers, generators, processes of brokers and of Kafka.

Processes:

- `servers`         one Qanat or Apache Kafka in a process of its own, as users start them
- `brokers`         several Qanat brokers over one data directory, killed and started one by one
- `clients`         a producer that writes without pause while a cluster changes
- `kafka_broker`    Apache Kafka on one folder, started more than once
- `fake_broker`     a broker that answers just enough to record what clients send
- `spark_cluster`   Spark's standalone master and workers
- `spark_processes` the JVMs and Python workers below a process

Fetched or built into `.cache/`:

- `kafka_jars`      Apache Kafka's jars; `kafka_dump` prints a segment with them
- `spark_connector` Spark's own Kafka connector with a PySpark that fits it
- `build_etcd`      etcd: Debian's program, or built from source
- `toolchains`      Go, Node.js, zig, packages of Debian; whether a registry answers

Generators and checks:

- `codec`, `generate_codec`  `src/qanat/wire/kafka/messages` from Kafka's schemas; `bench_codec` measures it
- `capture_batches`          record batches as real clients write them, for `tests/captures`
- `kafka_page`               the tables of `docs/protocols/kafka.md`
- `check_site`               the documentation's links
- `build_dist`, `release`    sdist and wheels, compiled for each CPython

Rule: nothing here imports `bench`, `verify`, `demo` or `tests`; `bench` and `verify` import what they share from here.
"""
