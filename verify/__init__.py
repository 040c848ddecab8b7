"""Failure testing: simulated and real clusters under faults, and other implementations as judges.

Simulated, from a seed (on `qanat.testing.simulation`):

- `clusters`      whole clusters under seeded faults, their checker and the bug bank: `make sim`, `make bug-bank`
- `logs`          one log whose power is cut at every operation: `make sim-log`

Real processes:

- `app_fire`      an app of `qanat.client` whose workers and brokers are killed, also on Kafka: `make app-fire`
- `chaos`         three brokers in network namespaces under faults: `make chaos`
- `diagnosis`     bottlenecks injected into brokers, which `qanat diagnose` must name: `make diagnosis`
- `restart`       one broker that is killed, or loses power, under load: `make restart`
- `exactly_once`  a transactional copy whose programs and broker are killed
- `security_fire` secrets that are rotated, and an open cluster that is locked down, under load: `make security-fire`
- `share_queue`   a queue whose consumers and broker are killed: `make queue`
- `spark_fire`    a Spark copy whose driver, executors and broker are killed: `make spark-fire`

Judges:

- `conformance`   the same conversations with Apache Kafka and with Qanat
- `connector`     the same reads and writes with Spark's own Kafka connector: `make spark-connector`
- `mutants`       mutation testing of the correctness core: `make mutants`

Rule 1: nothing here is part of the wheel. `verify` imports `qanat` and `tools`, and neither `bench` nor `tests`.
Rule 2: in simulations, one seed gives one history: no wall clock, no iteration over sets, no `hash()`.
"""
